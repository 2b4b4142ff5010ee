#include "rpcbind/service.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace penstock::rpcbind {

std::string DescribeProgram(uint32_t program) {
  static constexpr std::array<std::pair<uint32_t, std::string_view>, 7> kNames{{{100000, "the port mapper"},
                                                                                {100003, "NFS"},
                                                                                {100005, "MOUNT"},
                                                                                {100011, "RQUOTA"},
                                                                                {100021, "the lock manager NLM"},
                                                                                {100024, "the status monitor NSM"},
                                                                                {100227, "NFSACL"}}};
  const auto* const known = std::ranges::find(kNames, program, &std::pair<uint32_t, std::string_view>::first);
  if (known == kNames.end()) return fmt::format("program {}", program);
  return fmt::format("{} (program {})", known->second, program);
}

}  // namespace penstock::rpcbind
