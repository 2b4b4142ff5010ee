#include "server/server_id.h"

#include <fmt/core.h>

#include <optional>
#include <string_view>

#include "base/state_directory.h"
#include "nfs/v4/state/random.h"

namespace penstock::server {

SetupResult<std::string> LoadServerId(const std::filesystem::path& directory) {
  constexpr std::string_view kPrefix = "penstock-";
  constexpr size_t kDigits = 32;
  constexpr const char* kLoss = "without it, NFSv4 clients take this for another server and must mount again";
  const std::filesystem::path file = directory / "server-id";
  PENSTOCK_TRY(const std::optional<std::string> kept, ReadStateFile(file, 4096, kLoss));
  if (!kept) {
    std::string id = fmt::format("{}{:016x}{:016x}", kPrefix, nfs::v4::SystemRandom(), nfs::v4::SystemRandom());
    PENSTOCK_CHECK(WriteStateFile(file, id + '\n'));
    return id;
  }
  std::string_view id = *kept;
  if (id.ends_with('\n')) id.remove_suffix(1);
  const bool ours = id.size() == kPrefix.size() + kDigits && id.starts_with(kPrefix) &&
                    id.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
  if (!ours) return std::unexpected(DamagedStateFile(file, "not a server's name", kLoss));
  return std::string(id);
}

}  // namespace penstock::server
