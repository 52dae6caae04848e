// Shows a process an older x86-64 processor than the one it runs on: preload it (LD_PRELOAD), OLDER_CPU names the kind.
//
// Linux can make CPUID trap (arch_prctl ARCH_SET_CPUID, where /proc/cpuinfo lists cpuid_fault). The trap is answered
// with what the processor says, less the features that the older kind lacks, so that libraries choose the kernels that
// they would choose there. Threads inherit the trap; a program that is started gets it from this library again.
// What a library finds out in another way (AT_HWCAP2, XGETBV) stays as it is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define SET_CPUID 0x1012
#define BIT(n) (1u << (n))

typedef int (*sigaction_call)(int, const struct sigaction *, struct sigaction *);

enum kind { NONE, AVX, AVX2, AVX512 };
static enum kind kind = NONE;
static sigaction_call real_sigaction;
// What the program itself wants done on SIGSEGV.
static struct sigaction theirs;

static int trap_cpuid(int on) { return (int)syscall(SYS_arch_prctl, SET_CPUID, on ? 0 : 1); }

// Takes away what the older kind lacks. Bits: Intel's manual, volume 2A, CPUID.
static void mask(uint32_t leaf, uint32_t subleaf, uint32_t r[4]) {
  if (leaf == 1 && kind == AVX) r[2] &= ~BIT(12);  // FMA
  if (leaf == 7 && subleaf == 0) {
    if (kind < AVX512) {
      // AVX512 F, DQ, IFMA, PF, ER, CD, BW, VL
      r[1] &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31));
      r[2] &= ~BIT(14);  // AVX512 VPOPCNTDQ
      r[3] &= ~BIT(8);   // AVX512 VP2INTERSECT
    }
    if (kind == AVX) r[1] &= ~BIT(5);                   // AVX2
    r[2] &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12));     // AVX512 VBMI, VBMI2, VNNI, BITALG
    r[3] &= ~(BIT(22) | BIT(23) | BIT(24) | BIT(25));   // AMX-BF16, AVX512-FP16, AMX-TILE, AMX-INT8
  }
  if (leaf == 7 && subleaf == 1) {
    r[0] &= ~(BIT(4) | BIT(5) | BIT(21) | BIT(23));  // AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA
    r[3] &= ~(BIT(4) | BIT(5) | BIT(10) | BIT(19));  // AVX-VNNI-INT8, AVX-NE-CONVERT, AVX-VNNI-INT16, AVX10
  }
}

static void on_fault(int number, siginfo_t *info, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *code = (const unsigned char *)registers[REG_RIP];
  if (info->si_code == SI_KERNEL && code[0] == 0x0f && code[1] == 0xa2) {
    uint32_t leaf = (uint32_t)registers[REG_RAX], subleaf = (uint32_t)registers[REG_RCX];
    uint32_t r[4] = {leaf, 0, subleaf, 0};
    trap_cpuid(0);
    __asm__ volatile("cpuid" : "+a"(r[0]), "=b"(r[1]), "+c"(r[2]), "=d"(r[3]));
    trap_cpuid(1);
    mask(leaf, subleaf, r);
    registers[REG_RAX] = r[0], registers[REG_RBX] = r[1], registers[REG_RCX] = r[2], registers[REG_RDX] = r[3];
    registers[REG_RIP] += 2;
  } else if (theirs.sa_flags & SA_SIGINFO) {
    theirs.sa_sigaction(number, info, context);
  } else if (theirs.sa_handler != SIG_DFL && theirs.sa_handler != SIG_IGN) {
    theirs.sa_handler(number);
  } else {
    // As without us: the signal ends the process.
    struct sigaction plain = {.sa_handler = SIG_DFL};
    real_sigaction(number, &plain, NULL);
    raise(number);
  }
}

// Keeps the handler of ours in its place where the program sets one of its own, as Python's faulthandler does.
int sigaction(int number, const struct sigaction *wanted, struct sigaction *before) {
  if (!real_sigaction) real_sigaction = (sigaction_call)dlsym(RTLD_NEXT, "sigaction");
  if (number != SIGSEGV || kind == NONE) return real_sigaction(number, wanted, before);
  struct sigaction old = theirs;
  if (wanted) theirs = *wanted;
  if (before) *before = old;
  return 0;
}

sighandler_t signal(int number, sighandler_t handler) {
  struct sigaction wanted = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
  return sigaction(number, &wanted, &before) ? SIG_ERR : before.sa_handler;
}

__attribute__((constructor)) static void start(void) {
  static const char *const names[] = {"", "avx", "avx2", "avx512"};
  const char *wanted = getenv("OLDER_CPU");
  enum kind chosen = NONE;
  for (int i = AVX; i <= AVX512; i++)
    if (wanted && !strcmp(wanted, names[i])) chosen = (enum kind)i;
  if (!wanted) return;
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER | SA_ONSTACK};
  action.sa_sigaction = on_fault;
  real_sigaction = (sigaction_call)dlsym(RTLD_NEXT, "sigaction");
  real_sigaction(SIGSEGV, &action, &theirs);
  kind = chosen;
  if (chosen == NONE || trap_cpuid(1)) {
    fprintf(stderr, "older_cpu: %s: %s\n", wanted, chosen ? "CPUID cannot be trapped here" : "unknown kind");
    _exit(125);
  }
}
