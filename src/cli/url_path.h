// Paths on a server as text.
#pragma once

#include <string>
#include <string_view>

namespace penstock::cli {

// Percent-encodes a path for a URL.
std::string EncodePath(std::string_view path);

// Returns `path` as an absolute path without "." and "..", as seen from the absolute directory `from`. A ".." leads
// back along the text, and not out of "/".
std::string AbsolutePath(std::string_view from, std::string_view path);

}  // namespace penstock::cli
