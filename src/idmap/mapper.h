// Maps the owners and groups of NFS version 4 to the ids of this host, and ids to owners and groups. The server and the
// client share it (RFC 8881 §5.9, RFC 7530 §5.9; the conventions of Linux's libnfsidmap).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/task.h"
#include "idmap/lookups.h"

namespace penstock::idmap {

// Any thread.
class Mapper {
 public:
  // Maps numbers only.
  Mapper() = default;
  // Maps names of `domain` by `lookups`, which outlives this object. An empty domain: maps numbers only.
  Mapper(std::string domain, Lookups& lookups)
      : domain_(std::move(domain)), lookups_(domain_.empty() ? nullptr : &lookups) {}

  bool has_names() const { return lookups_ != nullptr; }
  const std::string& domain() const { return domain_; }

  // Returns name@domain. Without names, and for an id that has no name, returns the number (RFC 8881 §5.9: "without the
  // @"). NoAnswer: the id may have a name.
  Task<Result<std::string, NoAnswer>> TextOf(Kind kind, uint32_t id, Caller& caller) const;

  // The same without a wait. Empty if the database is to be asked.
  std::optional<std::string> KnownTextOf(Kind kind, uint32_t id) const;

  // Returns the id of an owner or group that a peer sends. Empty if the text has no translation: it is a number and
  // `accepts_numbers` is false, the domain is another one, or the name is unknown.
  Task<Result<std::optional<uint32_t>, NoAnswer>> IdOf(Kind kind, std::string_view text, bool accepts_numbers,
                                                       Caller& caller) const;

 private:
  std::string TextOf(const std::optional<Account>& account, uint32_t id) const;

  std::string domain_;
  Lookups* lookups_ = nullptr;
};

}  // namespace penstock::idmap
