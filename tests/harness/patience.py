"""How long tests wait for what must come. Only a test that fails waits so long."""

BUSY = 5  # on a machine that is busy with other things everything may take so many times as long
SECONDS = 30 * BUSY  # for what takes a moment
