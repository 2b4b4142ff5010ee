#include "cli/served_exports.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/data.h"
#include "fs/faulty/process.h"
#include "fs/posix/mounts.h"

namespace penstock::cli {
namespace {

namespace stdfs = std::filesystem;

// Why the export's directory cannot be served now, if that can be told without opening it.
std::optional<std::string> WhyNotThere(const nfs::ExportSpec& spec) {
  std::error_code error;
  if (spec.mount_point) {
    const std::string& point = spec.mount_point->empty() ? spec.directory : *spec.mount_point;
    if (!fs::posix::IsMountPoint(point)) return fmt::format("nothing is mounted at {}", point);
  }
  const stdfs::file_status status = stdfs::status(spec.directory, error);
  if (!stdfs::exists(status)) return fmt::format("no such directory: {}", spec.directory);
  if (!stdfs::is_directory(status)) return fmt::format("not a directory: {}", spec.directory);
  return std::nullopt;
}

// The exports of the file systems that are mounted below the directory of `spec`.
SetupResult<std::vector<nfs::ExportSpec>> MountedBelow(const nfs::ExportSpec& spec) {
  PENSTOCK_TRY(const std::vector<stdfs::path> mounts, fs::posix::MountsBelow(spec.directory));
  std::error_code error;
  const stdfs::path top = stdfs::canonical(spec.directory, error);
  if (error) return std::unexpected(SetupError{fmt::format("{}: {}", spec.directory, error.message())});
  std::vector<nfs::ExportSpec> specs;
  for (const stdfs::path& each : mounts) {
    nfs::ExportSpec below = spec;
    const std::string rest = each.lexically_relative(top).string();
    below.path = spec.path == "/" ? "/" + rest : fmt::format("{}/{}", spec.path, rest);
    below.directory = each.string();
    below.is_root = false;
    below.mount_point = "";
    below.crosses_mounts = false;
    specs.push_back(std::move(below));
  }
  return specs;
}

// Whether another configured export, served or not, has this directory, or one above it that is below the directory of
// `outer`. Then that export decides who may use it.
bool BelongsToAnother(const stdfs::path& directory, const nfs::ExportSpec& outer,
                      const std::vector<nfs::ExportSpec>& configured) {
  std::error_code error;
  const auto is_below = [](const stdfs::path& inner, const stdfs::path& above) {
    const auto [end, rest] = std::ranges::mismatch(above, inner);
    return end == above.end();
  };
  const stdfs::path top = stdfs::weakly_canonical(outer.directory, error);
  return std::ranges::any_of(configured, [&](const nfs::ExportSpec& each) {
    if (each.is_cephfs()) return false;
    const stdfs::path other = stdfs::weakly_canonical(each.directory, error);
    if (error) return true;  // it may be there
    return other != top && is_below(other, top) && is_below(directory, other);
  });
}

// The export that contains the path, and no other one that does is deeper.
const nfs::ExportSpec* DeepestOf(const std::vector<nfs::ExportSpec>& specs, std::string_view path) {
  const nfs::ExportSpec* deepest = nullptr;
  for (const nfs::ExportSpec& each : specs) {
    const bool contains =
        each.path == "/" || each.path == path || (path.starts_with(each.path) && path[each.path.size()] == '/');
    if (contains && (!deepest || each.path.size() > deepest->path.size())) deepest = &each;
  }
  return deepest;
}

}  // namespace

Finding FindingAt(const nfs::ExportSpec& spec, Severity severity, std::string message) {
  Finding finding{.file = {}, .line = 0, .severity = severity, .message = std::move(message)};
  const size_t colon = spec.place.rfind(':');
  if (colon == std::string::npos) return finding;
  finding.file = spec.place.substr(0, colon);
  const std::string_view line = std::string_view(spec.place).substr(colon + 1);
  std::from_chars(line.data(), line.data() + line.size(), finding.line);
  return finding;
}

SetupResult<std::vector<server::Export>> ServedExports::Open(std::vector<nfs::ExportSpec> specs,
                                                             std::vector<Finding>& findings) {
  const std::vector<nfs::ExportSpec> configured = specs;
  std::vector<stdfs::path> hidden;
  std::erase_if(specs, [&](const nfs::ExportSpec& each) {
    if (each.is_referral() || each.is_cephfs() || (each.place.empty() && !each.mount_point)) return false;
    const auto why = WhyNotThere(each);
    if (why)
      findings.push_back(FindingAt(each, Severity::kWarning, fmt::format("{} is not exported: {}", each.path, *why)));
    // Its options keep clients of an outer export out of it.
    if (why) hidden.push_back(each.directory);
    return why.has_value();
  });
  std::vector<nfs::ExportSpec> mounted;
  for (const nfs::ExportSpec& each : specs) {
    if (!each.crosses_mounts || each.is_referral()) continue;
    PENSTOCK_TRY(std::vector<nfs::ExportSpec> below, MountedBelow(each));
    for (nfs::ExportSpec& one : below) {
      if (DeepestOf(specs, one.path) != &each || BelongsToAnother(one.directory, each, configured)) continue;
      const FileDescriptor directory(::open(one.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (directory) {
        mounted.push_back(std::move(one));
      } else {
        findings.push_back(FindingAt(
            each, Severity::kWarning,
            fmt::format("{} is not exported with {} (crossmnt): {}", one.path, each.path, DescribeErrno(errno))));
      }
    }
  }
  std::ranges::move(mounted, std::back_inserter(specs));

  std::vector<fs::posix::DirectoryToServe> directories;
  std::vector<fs::ceph::DirectoryToServe> cephfs;
  for (const nfs::ExportSpec& each : specs) {
    if (each.is_referral()) {
      hidden.push_back(each.directory);
    } else if (each.is_cephfs()) {
      PENSTOCK_TRY(fs::ceph::Location location, fs::ceph::ParseLocation(each.directory));
      cephfs.push_back({each.path, std::move(location)});
    } else {
      directories.push_back({each.path, each.directory});
    }
  }
  PENSTOCK_TRY(auto file_systems, directories_.Open(directories, hidden));
  auto file_systems_of_cephfs = cephfs_.Open(cephfs);
  std::vector<server::Export> exports;
  size_t opened = 0, opened_of_cephfs = 0;
  for (nfs::ExportSpec& each : specs) {
    std::shared_ptr<fs::FileSystem> file_system;
    if (!each.is_referral()) {
      std::shared_ptr<fs::FileSystem> files;
      if (each.is_cephfs()) {
        auto& one = file_systems_of_cephfs[opened_of_cephfs++];
        if (!one && each.place.empty()) return std::unexpected(std::move(one).error());
        if (!one) {
          findings.push_back(FindingAt(each, Severity::kWarning,
                                       fmt::format("{} is not exported: {}", each.path, one.error().message)));
          continue;
        }
        files = *std::move(one);
      } else {
        files = std::move(file_systems[opened++]);
      }
      PENSTOCK_TRY(file_system, fs::faulty::WithFaults(std::move(files), faults_));
      if (audit_) file_system = Audited(std::move(file_system), each.path);
    }
    exports.push_back({std::move(each.path), std::move(each.admissions), std::move(file_system), each.is_root});
  }
  return exports;
}

std::shared_ptr<fs::FileSystem> ServedExports::Audited(std::shared_ptr<fs::FileSystem> files, const std::string& path) {
  std::erase_if(audited_, [](const auto& each) { return each.expired(); });
  for (const auto& each : audited_) {
    auto known = each.lock();
    if (known && known->files() == files && known->path() == path) return known;
  }
  auto audited = std::make_shared<fs::audited::FileSystem>(std::move(files), path, audit_);
  audited_.push_back(audited);
  return audited;
}

std::vector<Finding> CheckDirectories(const std::vector<nfs::ExportSpec>& specs) {
  std::vector<Finding> findings;
  for (const nfs::ExportSpec& each : specs) {
    if (each.is_referral() || each.is_cephfs()) continue;
    if (const auto why = WhyNotThere(each)) {
      const Severity severity = each.mount_point ? Severity::kWarning : Severity::kError;
      findings.push_back(FindingAt(each, severity, fmt::format("{} is not exported: {}", each.path, *why)));
    }
  }
  return findings;
}

}  // namespace penstock::cli
