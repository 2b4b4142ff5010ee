#include "cluster/client_entry.h"

#include "base/bytes.h"
#include "base/texts.h"

namespace penstock::cluster {
namespace {

constexpr size_t kHeadOfClient = 12;

}  // namespace

std::string KeyOf(std::string_view owner) { return Hexadecimal(AsBytes(owner)); }

std::string ValueOf(const nfs::v4::RecoveryRecord& client) {
  std::string value(kHeadOfClient, '\0');
  auto* const head = reinterpret_cast<std::byte*>(value.data());
  StoreBig(head, static_cast<uint32_t>(client.principal.flavor));
  StoreBig(head + 4, client.principal.uid);
  StoreBig(head + 8, static_cast<uint32_t>(client.owner.size()));
  return value.append(client.owner).append(client.principal.name);
}

std::optional<nfs::v4::RecoveryRecord> ParseClient(std::string_view value) {
  if (value.size() < kHeadOfClient) return std::nullopt;
  const ConstBytes head = AsBytes(value);
  const size_t owner = LoadBig<uint32_t>(head.data() + 8);
  value.remove_prefix(kHeadOfClient);
  if (owner > value.size()) return std::nullopt;
  return nfs::v4::RecoveryRecord{.owner = std::string(value.substr(0, owner)),
                                 .principal = {.flavor = static_cast<rpc::AuthFlavor>(LoadBig<uint32_t>(head.data())),
                                               .uid = LoadBig<uint32_t>(head.data() + 4),
                                               .name = std::string(value.substr(owner))}};
}

}  // namespace penstock::cluster
