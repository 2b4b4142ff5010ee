#include "nfs/exports.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <optional>

#include "base/local_port.h"
#include "base/log.h"
#include "nfs/caller.h"
#include "rpc/tls/certificate.h"

namespace penstock::nfs {
namespace {

// FNV-1a. It must never change, because clients keep handles with these ids for years. It need not be secret.
ExportId IdOf(std::string_view path) {
  uint32_t hash = 2166136261;
  for (const char c : path) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619;
  return ExportId(hash);
}

// Returns the rest of `path` after `prefix`, a normal export path, or nullopt if `path` is not within it. A client's
// path may have any number of slashes, and names of a directory itself (".").
std::optional<std::string_view> RestBelow(std::string_view path, std::string_view prefix) {
  const auto skip_slashes = [](std::string_view& text) {
    while (text.starts_with('/') || text.starts_with("./") || text == ".") text.remove_prefix(1);
  };
  skip_slashes(path);
  skip_slashes(prefix);
  while (!prefix.empty()) {
    const std::string_view wanted = prefix.substr(0, prefix.find('/'));
    if (path.substr(0, path.find('/')) != wanted) return std::nullopt;
    prefix.remove_prefix(wanted.size());
    path.remove_prefix(wanted.size());
    skip_slashes(prefix);
    skip_slashes(path);
  }
  return path;
}

}  // namespace

Export::Export(ExportId id, std::string path, std::shared_ptr<fs::FileSystem> file_system,
               std::vector<Admission> admissions, const HostNames* hosts, bool is_root)
    : id_(id),
      path_(std::move(path)),
      file_system_(std::move(file_system)),
      admissions_(std::move(admissions)),
      is_root_(is_root) {
  for (const Admission& each : admissions_) {
    by_precedence_.push_back(&each);
    if (locations_.list.empty()) locations_ = each.options.locations;
  }
  // Of one kind in the operator's order, which is that of their places in memory.
  std::ranges::sort(by_precedence_, {}, [](const Admission* each) { return std::pair(each->clients.kind(), each); });
  const bool needed = std::ranges::any_of(admissions_, [](const Admission& each) { return each.clients.NeedsFacts(); });
  hosts_ = needed ? hosts : nullptr;
}

const ExportOptions* Export::OptionsFor(const IpAddress& client) const {
  const std::shared_ptr<const HostFacts> facts = hosts_ ? hosts_->Of(client) : nullptr;
  for (const Admission* each : by_precedence_) {
    if (each->clients.Has(client, facts.get())) return &each->options;
    // A client that this group restricts must not get the options of a wider one.
    if (each->clients.NeedsFacts() && hosts_ && (!facts || !facts->complete)) return nullptr;
  }
  return nullptr;
}

bool Export::Admits(const rpc::Peer& client) const { return !FlavorsFor(client).empty(); }

SecurityFlavors Export::FlavorsFor(const rpc::Peer& client) const {
  const ExportOptions* const options = OptionsFor(client);
  return options ? FlavorsFor(client, *options) : SecurityFlavors();
}

SecurityFlavors Export::FlavorsFor(const rpc::Peer& client, const ExportOptions& options) {
  const bool has_port = client.transport != rpc::TransportKind::kRdma || client.stepped_up;
  if (!options.privileged_ports || !has_port || client.address.port() < kFirstUnreservedPort) return options.security;
  SecurityFlavors flavors;
  for (const SecurityFlavor each : options.security) {
    if (!nfs_protocol::ServicesOf(each).empty()) flavors.Add(each);
  }
  return flavors;
}

bool Export::AdmitsProtection(const rpc::Peer& client, const ExportOptions& options) {
  if (!options.protections.Admits(client.protection)) return false;
  if (options.certificates.empty() && !options.certificate_of_address) return true;
  if (!client.certificate) return false;
  return (options.certificate_of_address && client.certificate->Names(client.address.address())) ||
         std::ranges::any_of(options.certificates,
                             [&](const std::string& name) { return client.certificate->Names(name); });
}

fs::Pinned Export::Hold(fs::Pinned pinned) const {
  // The pin ends before the file system.
  struct Held {
    std::shared_ptr<fs::FileSystem> file_system;
    fs::Pinned pinned;
  };
  auto held = std::make_shared<const Held>(file_system_, std::move(pinned));
  const void* const object = held->pinned.get();
  return fs::Pinned(std::move(held), object);
}

NamedFile Export::Name(const fs::Handle& object) const {
  const auto identity = file_system_->Identify(object);
  assert(identity);
  return {{id_, object}, *identity};
}

std::optional<PaddedHandle> Export::PaddedHandleOf(const fs::Handle& object) const {
  const auto padded = ToPadded({id_, object});
  if (!padded && !told_of_long_handles_.exchange(true)) {
    log::warn(
        "export {}: clients of NFS version 2 cannot use it, because its file handles are too long for that version ({} "
        "octets instead of {})",
        path_, object.size(), kMaxPaddedObject);
  }
  return padded;
}

SetupResult<void> ExportTable::Add(std::string_view path, std::shared_ptr<fs::FileSystem> file_system,
                                   std::vector<Admission> admissions, const HostNames* hosts, bool is_root) {
  PENSTOCK_TRY(std::string normal, NormalizeExportPath(path));
  const ExportId id = IdOf(normal);
  const auto place = PlaceOf(id);
  if (place != exports_.end() && (*place)->id() == id) {
    if ((*place)->path() == normal) return std::unexpected(SetupError{fmt::format("\"{}\" is exported twice", normal)});
    return std::unexpected(SetupError{
        fmt::format("exports \"{}\" and \"{}\" have the same handle prefix; choose another path for one of them",
                    (*place)->path(), normal)});
  }
  exports_.insert(place, std::make_shared<const Export>(id, std::move(normal), std::move(file_system),
                                                        std::move(admissions), hosts, is_root));
  return {};
}

void ExportTable::Keep(std::shared_ptr<const Export> exported) {
  exports_.insert(PlaceOf(exported->id()), std::move(exported));
}

ExportTable::List::const_iterator ExportTable::PlaceOf(ExportId id) const {
  return std::ranges::lower_bound(exports_, id, {}, [](const auto& each) { return each->id(); });
}

const Export* ExportTable::Find(ExportId id) const {
  const auto place = PlaceOf(id);
  return place != exports_.end() && (*place)->id() == id ? place->get() : nullptr;
}

std::shared_ptr<const Export> ExportTable::FindShared(ExportId id) const {
  const auto place = PlaceOf(id);
  return place != exports_.end() && (*place)->id() == id ? *place : nullptr;
}

SetupResult<void> Exports::Add(std::string_view path, std::shared_ptr<fs::FileSystem> file_system,
                               ExportOptions options, const std::vector<ClientSpec>& clients) {
  std::vector<Admission> admissions;
  for (const ClientSpec& each : clients) admissions.push_back({each, options});
  if (admissions.empty()) admissions.push_back({ClientSpec(), std::move(options)});
  ExportTable next = *Get();
  PENSTOCK_CHECK(next.Add(path, std::move(file_system), std::move(admissions)));
  Replace(std::make_shared<const ExportTable>(std::move(next)));
  return {};
}

void Exports::HandleFailure(const rpc::CallContext& call) const {
  const auto table = Get();
  refusals_.HandleFailure(call, call.notes.export_id ? table->Find(ExportId(*call.notes.export_id)) : nullptr);
}

ExportTable::Place ExportTable::Resolve(std::string_view path) const {
  Place best;
  if (!path.starts_with('/')) return best;
  size_t depth = 0;
  for (const auto& candidate : exports_) {
    const auto rest = RestBelow(path, candidate->path());
    if (!rest || (best.found && candidate->path().size() <= depth)) continue;
    best = {candidate.get(), *rest};
    depth = candidate->path().size();
  }
  return best;
}

}  // namespace penstock::nfs
