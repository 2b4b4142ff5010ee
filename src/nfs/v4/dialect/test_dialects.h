// For tests of the state: the dialects of the RFCs, without operations.
#pragma once

#include <array>
#include <cstddef>

#include "nfs/v4/dialect/dialect.h"

namespace penstock::nfs::v4 {

// Returns the dialect with this minor version, 0 to 2.
inline const Dialect& DialectOf(size_t minor_version) {
  static const std::array<Dialect, 3> kDialects{Dialect{kFactsOfRfc7530, {}}, Dialect{kFactsOfRfc8881, {}},
                                                Dialect{kFactsOfRfc7862, {}}};
  return kDialects.at(minor_version);
}

}  // namespace penstock::nfs::v4
