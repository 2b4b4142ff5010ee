// The text of the last failure of each thread, which penstock_error_text() returns.
#pragma once

#include <string>

namespace penstock::library {

// Sets the text of the calling thread: one line for people. It stays until the next call.
void SetErrorText(std::string text) noexcept;

// Sets the text, and returns -number, for `return Fail(EINVAL, "...")`. Requires a positive errno.
int Fail(int number, std::string text) noexcept;

}  // namespace penstock::library
