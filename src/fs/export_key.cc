#include "fs/export_key.h"

#include <vector>

namespace penstock::fs {

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

}  // namespace penstock::fs
