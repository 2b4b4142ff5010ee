// Directory cookies of 32 bits (RFC 1094 §2.2.17) for the 64-bit cookies of a file system.
//
//   - A cookie below 2^31 stays as it is. tmpfs, xfs and btrfs have only such cookies.
//   - The cookies of ext4 have 63 bits: the hash of the next name, in the order of which the directory is listed
//     (fs::Properties::positional_cookies). The first 31 bits suffice to continue, and the highest bit marks them. They
//     do not suffice if the entry itself has the same 31 bits as the next one, since it would come again. Such an
//     entry, and one whose own hash is unknown because it is the first of a reply, gets a number of the table.
//   - Any other cookie gets a number of the table.
//
// So the numbers of all entries but a few are valid for ever. The table is bounded, and a restart of the server empties
// it. A client that continues from a number that the table does not know gets an error: no entry is left out silently,
// and none comes twice.
#pragma once

#include <cstdint>
#include <optional>

#include "fs/types.h"
#include "nfs/v2/cookie_table.h"

namespace penstock::nfs::v2 {

// The cookies of one READDIR. The entries' cookies must be converted in their order.
class ListingCookies {
 public:
  // `positional` is the property of the file system. All arguments outlive this object.
  ListingCookies(CookieTable& table, uint64_t host, const fs::Identity& directory, bool positional)
      : table_(table), host_(host), directory_(directory), positional_(positional) {}

  // Returns the place where the client continues, or nullopt if its number is unknown. Called once, first.
  std::optional<fs::Cookie> Start(uint32_t number);
  // Returns the number for the cookie of the next entry, or nullopt if the client's own number was unknown after all:
  // then the listing did not begin where the client had stopped.
  std::optional<uint32_t> Next(fs::Cookie cookie);

 private:
  static constexpr uint32_t kPositionBit = 0x8000'0000;

  CookieTable& table_;
  const uint64_t host_;
  const fs::Identity& directory_;
  const bool positional_;
  bool is_plain_ = false;            // the client's number was taken for a cookie below 2^31, and is not zero
  std::optional<uint64_t> current_;  // the position of the next entry, if it is known
};

}  // namespace penstock::nfs::v2
