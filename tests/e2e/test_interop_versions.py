"""Which version of Debian's packages the tests with real registries take (tests/interop/servers.py)."""

import sys

import pytest
from usher import SOURCE

sys.path.insert(0, str(SOURCE / "tests" / "interop"))

from servers import choose  # noqa: E402


@pytest.mark.parametrize("wanted, offered, taken", [
    ("3.2.6-1", ["3.2.6-1"], "3.2.6-1"),
    ("3.2.6-1", ["3.2.7-1", "3.2.6-1"], "3.2.6-1"),
    ("1:1.1*", ["1:1.1.0-1"], "1:1.1.0-1"),
])
def test_the_version_that_is_written_down_is_taken_where_it_is_there(wanted, offered, taken):
    assert choose("bookworm", f"knot={wanted}", offered) == taken


@pytest.mark.parametrize("wanted, offered, taken", [
    ("3.2.6-1", ["3.2.6-1+deb12u1"], "3.2.6-1+deb12u1"),
    ("3.4.23-4+b4", ["4.0.0-1", "3.5.16-4", "3.4.30-1"], "3.5.16-4"),
    ("1:1.1*", ["2:1.2-1"], "2:1.2-1"),
])
def test_the_newest_of_its_series_is_taken_where_it_is_not(capfd, wanted, offered, taken):
    assert choose("bookworm", f"knot={wanted}", offered) == taken
    assert f"Debian's bookworm has knot {wanted} no longer: taking {taken}" in capfd.readouterr().err


@pytest.mark.parametrize("offered, said", [([], "no version"), (["4.0-1", "2.9-1"], "4.0-1 and 2.9-1")])
def test_another_series_is_an_error_that_says_what_there_is(offered, said):
    with pytest.raises(RuntimeError, match=f"neither knot 3.2.6-1 nor another of the series 3, but {said}"):
        choose("bookworm", "knot=3.2.6-1", offered)
