"""The Linux that runs a test's scripts: a guest that is booted for each script, or this machine if the test itself runs
in a guest."""

import guest
from cases import Skip
from guest_programs import carried
from penstock import INSIDE
from script import ScriptHere

Linux = ScriptHere if INSIDE else guest.Guest


def require():
    """Skips the test if no guest is available."""
    if INSIDE:
        return
    try:
        guest.require()
    except guest.GuestUnavailable as why:
        raise Skip(str(why)) from None


def with_programs(*names):
    """Returns the files for a Linux with these programs of tests/interop/guest. A test inside a guest has them already."""
    return {} if INSIDE else carried(*names)
