// Texts that a server can choose, for the user's terminal.
#pragma once

#include <string>
#include <string_view>

namespace penstock::cli {

// Returns the text with '?' for each control character: C0, DEL and C1 (U+0080 to U+009F, in UTF-8 C2 80 to C2 9F). If
// the text is not UTF-8, also with '?' for each octet that is not ASCII.
std::string Printable(std::string_view text);

// Whether standard output is a terminal. Only there names are made Printable(): elsewhere they are exact.
bool OutputIsTerminal();

}  // namespace penstock::cli
