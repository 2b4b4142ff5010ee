// Where the program's log messages go.
#pragma once

namespace penstock::cli {

// Writes the library's log messages to stderr from now on, one line each with a time and a level. `verbosity` 0:
// warnings and errors; 1: also informational messages; 2 and more: also debug messages.
void SetUpLogging(unsigned verbosity);

}  // namespace penstock::cli
