#include "fs/posix/handle_key.h"

#include <optional>
#include <string>

#include "base/random.h"
#include "base/state_directory.h"

namespace penstock::fs::posix {

SetupResult<SipKey> LoadHandleKey(const std::filesystem::path& directory) {
  constexpr const char* kLoss = "without it, clients must mount again";
  const std::filesystem::path path = directory / "handle-key";
  SipKey key;
  const Bytes octets(reinterpret_cast<std::byte*>(key.data()), sizeof key);
  PENSTOCK_TRY(const std::optional<std::string> kept, ReadStateFile(path, sizeof key, kLoss));
  if (kept) {
    if (kept->size() != sizeof key) return std::unexpected(DamagedStateFile(path, "too short", kLoss));
    CopyBytes(octets, AsBytes(*kept));
    return key;
  }
  FillRandomly(octets);
  PENSTOCK_CHECK(WriteStateFile(path, AsText(octets)));
  return key;
}

}  // namespace penstock::fs::posix
