// The key that signs handles.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/siphash.h"

namespace penstock::fs::posix {

// Loads the key from `directory`, and makes one on first use. Only one server may use the directory: see
// StateDirectory.
SetupResult<SipKey> LoadHandleKey(const std::filesystem::path& directory);

}  // namespace penstock::fs::posix
