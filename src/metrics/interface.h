// What the operations of a protocol are called, and how their statuses are called. The server describes each program
// and version once; the counters of a loop find an operation by its number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::metrics {

// A program of RPC in one version. `variant` tells apart what one version has several of: 0 for none, and for NFS
// version 4 the minor version and 1, or kSess01Variant.
struct InterfaceKey {
  uint32_t program = 0;
  uint16_t version = 0;
  uint16_t variant = 0;

  bool operator==(const InterfaceKey&) const = default;
};
inline constexpr uint16_t kSess01Variant = 16;  // the sessions of 2004

// Where the results of a procedure have their status.
enum class StatusPlace : uint8_t {
  kNone,         // they have none
  kFirst,        // the first word
  kAfterOpaque,  // the word behind an opaque of variable length (the cookie of NLM)
};

struct Operation {
  uint32_t number = 0;
  std::string name;  // "READ"
  StatusPlace status = StatusPlace::kFirst;
};

struct Interface {
  InterfaceKey key;
  std::string program;  // "NFS"
  std::string version;  // "3", "4.1"
  std::vector<Operation> operations;
  // The name of a status, such as NFS3ERR_NOENT. Empty for an undefined one. Never null.
  std::string_view (*status_name)(uint32_t status) = nullptr;
  // Whether the status 0 is called "OK", whatever `status_name` says.
  bool zero_is_ok = true;
};

// The statuses of calls that have no status of their protocol: RFC 5531 §9.
inline constexpr uint32_t kAcceptStatus = 0x8000'0000;  // and accept_stat
inline constexpr uint32_t kAuthStatus = 0x8100'0000;    // and auth_stat
inline constexpr uint32_t kDropped = 0x8200'0000;

// Returns the value of the label "status".
std::string StatusName(const Interface& interface, uint32_t status);

}  // namespace penstock::metrics
