// Other servers' copies of an exported file system, and the export options refer= and replicas= that list them (RFC
// 8881 §11, RFC 7530 §8).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock::nfs {

// A path that one or several servers serve.
struct Location {
  std::string path;  // in the form of NormalizeExportPath()
  // Host names or addresses, in the operator's order. An address may have the suffix ".p1.p2" of a universal address,
  // the two octets of a port (RFC 8881 §11.16). An IPv6 address has no brackets.
  std::vector<std::string> servers{};
  bool operator==(const Location&) const = default;
};

struct Locations {
  // The longest text that ParseLocations() accepts, in octets. It limits the size of the attributes.
  static constexpr size_t kLongestText = 4096;

  // The export is a referral: its file system is absent from this server, which only tells where to find it.
  bool referral = false;
  std::vector<Location> list{};

  bool operator==(const Locations&) const = default;
};

// Parses "PATH@HOST[+HOST]...[:PATH@HOST[+HOST]...]...", the syntax of exports(5). An IPv6 address stands in brackets.
// The error is a reason without the text.
SetupResult<std::vector<Location>> ParseLocations(std::string_view text);

}  // namespace penstock::nfs
