// A group of clients, as an export names it (exports(5)).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/address.h"
#include "base/result.h"
#include "nfs/network.h"

namespace penstock::nfs {

struct HostFacts;

class ClientSpec {
 public:
  // In the order of precedence: if a client belongs to several groups, the options of the first kind hold, and among
  // groups of one kind those of the first group in the operator's order.
  enum class Kind : uint8_t {
    kHost,      // an address or the name of a host
    kNetwork,   // "10.0.0.0/8"
    kPattern,   // names of hosts: "*.example.org", "node[0-9]", with "*" for dots as well
    kNetgroup,  // "@group"
    kEveryone,  // "*"
  };

  // Everyone.
  ClientSpec() = default;
  explicit ClientSpec(const Network& network)
      : kind_(network.IsHost() ? Kind::kHost : Kind::kNetwork), network_(network) {}
  // Parses one of the forms above. The error is a reason without the text.
  static SetupResult<ClientSpec> Parse(std::string_view text);

  Kind kind() const { return kind_; }
  // Whether the group has the client. `facts` are those of the address; null if they are not known, and then no group
  // that NeedsFacts() has it.
  bool Has(const IpAddress& address, const HostFacts* facts) const;
  // Whether the group can only be told by the names of a client.
  bool NeedsFacts() const { return kind_ != Kind::kEveryone && !network_; }
  // The name, the pattern or the netgroup; empty unless NeedsFacts().
  const std::string& name() const { return name_; }
  // As in exports(5).
  std::string ToString() const;

  bool operator==(const ClientSpec&) const = default;

 private:
  Kind kind_ = Kind::kEveryone;
  std::optional<Network> network_;
  std::string name_;  // in lower case, but for a netgroup
};

}  // namespace penstock::nfs
