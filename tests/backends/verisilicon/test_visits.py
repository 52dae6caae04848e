"""The order in which the vendor's compiler comes to operators."""

from __future__ import annotations

from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.program import Code, Program, ProgramOperator, ProgramTensor, StoredForm, TensorRole
from dovetail.backends.verisilicon.visits import visit_order


def _program(*links: tuple[tuple[int, ...], int]) -> Program:
    """Return a program of operators that are only their inputs and their output; tensor 0 goes in."""
    count = 1 + max(output for _, output in links)
    tensors = tuple(ProgramTensor(StoredForm(Code.U8), (1,), TensorRole.INNER) for _ in range(count))
    operators = tuple(ProgramOperator("relu", inputs, (output,)) for inputs, output in links)
    edges = (("x", 0),), (("y", links[-1][1]),)
    return Program("vsi:v853", "", 0, Generation.VIP9000, tensors, operators, *edges)


def test_of_two_twins_behind_one_operator_the_later_comes_first_where_nothing_follows() -> None:
    """The library's sorting lets the last operator of its list take the place of the first."""
    assert visit_order(_program(((0,), 1), ((1,), 2), ((1,), 3), ((2, 3), 4))) == (0, 1, 2, 3)
    assert visit_order(_program(((0,), 1), ((1,), 2), ((2,), 3), ((2,), 4), ((3, 4), 5))) == (0, 1, 3, 2, 4)
    longer = (((0,), 1), ((1,), 2), ((2,), 3), ((2,), 4), ((3, 4), 5), ((5,), 6))
    assert visit_order(_program(*longer)) == (0, 1, 2, 3, 4, 5)


def test_a_shorter_way_is_walked_first_but_not_from_what_goes_in() -> None:
    """Each operator that reads only what goes in is a start of its own."""
    behind = (((0,), 1), ((1,), 2), ((2,), 3), ((1,), 4), ((3, 4), 5), ((5,), 6))
    assert visit_order(_program(*behind)).index(3) < visit_order(_program(*behind)).index(2)
    from_input = (((0,), 1), ((1,), 2), ((0,), 3), ((2, 3), 4), ((4,), 5))
    assert visit_order(_program(*from_input)) == (0, 1, 2, 3, 4)
