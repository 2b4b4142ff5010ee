#include "fs/posix/handle_key.h"

#include <optional>
#include <string>
#include <vector>

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

SipKey KeyOfExport(const SipKey& kept, std::string_view name, ConstBytes identity) {
  // { which half of the key: 1, the size of the name: 8, the name, the identity }
  std::vector<std::byte> text(1 + sizeof(uint64_t));
  StoreBig<uint64_t>(text.data() + 1, name.size());
  const ConstBytes named = AsBytes(name);
  text.insert(text.end(), named.begin(), named.end());
  text.insert(text.end(), identity.begin(), identity.end());
  SipKey key;
  for (size_t half = 0; half < key.size(); ++half) {
    text[0] = static_cast<std::byte>(half);
    key[half] = SipHash(kept, text);
  }
  return key;
}

}  // namespace penstock::fs::posix
