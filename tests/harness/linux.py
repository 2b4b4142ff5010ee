"""The Linux that a test's scripts run in: a guest that is booted for each; or this one, where the test itself runs inside a guest."""

import guest
from cases import Skip
from guest_programs import carried
from penstock import INSIDE
from script import ScriptHere

Linux = ScriptHere if INSIDE else guest.Guest


def require():
    """Skips the test where there is no guest to be had."""
    if INSIDE:
        return
    try:
        guest.require()
    except guest.GuestUnavailable as why:
        raise Skip(str(why)) from None


def with_programs(*names):
    """The files of a Linux that has these programs of tests/interop/guest: who runs a test inside a guest has brought them there."""
    return {} if INSIDE else carried(*names)
