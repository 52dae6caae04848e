/* A clock that is set forward and back again and again, for LD_PRELOAD: what a process asks of the clock on the wall is off
 * by another amount after every JUMP_EVERY questions, drawn from JUMP_SEED, or always by JUMP_BY seconds. Clocks that cannot
 * be set stay as they are.
 *
 * cc -shared -fPIC -o jumping_clock.so jumping_clock.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static const long long jumps[] = {
    0, 1, -1, 3600, -3600, 86400, -86400, 315360000, -315360000, /* ten years */
    -100000000000LL,                                             /* 1970 */
    400000000LL,                                                 /* past January 2038 */
    3000000000LL,                                                /* past 2106, where 32 bits without a sign end */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long state;
static long asked, every;
static const char *always;
static long long offset;
static int (*real)(clockid_t, struct timespec *);

static long long jump(void) {
    pthread_mutex_lock(&lock);
    if (!every) {
        const char *seed = getenv("JUMP_SEED"), *count = getenv("JUMP_EVERY");
        state = (seed ? strtoull(seed, 0, 10) : 1) * 6364136223846793005ULL + 1442695040888963407ULL;
        every = count && atol(count) > 0 ? atol(count) : 20;
        always = getenv("JUMP_BY");
        offset = always ? atoll(always) : 0;
    }
    if (!always && asked++ % every == 0) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        offset = jumps[(state >> 33) % (sizeof jumps / sizeof *jumps)];
    }
    long long found = offset;
    pthread_mutex_unlock(&lock);
    return found;
}

static int on_the_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, at);
    if (!code && on_the_wall(clock)) {
        at->tv_sec += jump();
        if (at->tv_sec < 0) at->tv_sec = 0;
    }
    return code;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int code = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return code;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
