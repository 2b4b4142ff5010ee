// The names of temporary files. A copy writes to a temporary file beside its target. If it is killed, the name tells
// the next copy what the file holds: of which source, of which state of the source, and how many octets are complete
// and on stable storage.
//
//   .NAME.penstock-SSSSSSSSVVVVVVVVVVVVVVVV-RRRRRRRR[-OFFSET]
//
// S and V are hash values of the source's name and of its size and time. R is random, so that copies that run at the
// same time have files of their own. OFFSET is absent if it is zero. All are hexadecimal. A long NAME is cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/mount.h"

namespace penstock::copying {

struct TemporaryName {
  std::string target;  // the name of the target, as far as it fits
  uint32_t source = 0;
  uint64_t version = 0;
  uint32_t random = 0;
  uint64_t complete = 0;  // the octets [0, complete) are on stable storage

  std::string Text() const;
  // Returns nothing if `name` is not the name of a temporary file.
  static std::optional<TemporaryName> Parse(std::string_view name);
  // Makes a new name for a copy of the file `source` with these attributes to the name `target`.
  static TemporaryName For(std::string_view target, std::string_view source, const client::Attributes& attributes);
  // Gives the name another random part.
  void Renew();
  // Whether the file is of a copy of the same source to the same target.
  bool IsOfSameCopy(const TemporaryName& other) const { return target == other.target && source == other.source; }

  bool operator==(const TemporaryName&) const = default;
};

}  // namespace penstock::copying
