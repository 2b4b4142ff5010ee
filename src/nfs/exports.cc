#include "nfs/exports.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <optional>

#include "base/local_port.h"
#include "base/log.h"
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

bool ById(const std::unique_ptr<const Export>& candidate, ExportId id) { return candidate->id() < id; }

}  // namespace

bool Export::Admits(const rpc::Peer& client) const {
  const bool has_port = client.transport != rpc::TransportKind::kRdma || client.stepped_up;
  if (options_.privileged_ports && has_port && client.address.port() >= kFirstUnreservedPort) return false;
  return AdmitsHost(client.address.address());
}

bool Export::AdmitsProtection(const rpc::Peer& client) const {
  if (!options_.protections.Admits(client.protection)) return false;
  if (options_.certificates.empty() && !options_.certificate_of_address) return true;
  if (!client.certificate) return false;
  return (options_.certificate_of_address && client.certificate->Names(client.address.address())) ||
         std::ranges::any_of(options_.certificates,
                             [&](const std::string& name) { return client.certificate->Names(name); });
}

bool Export::AdmitsHost(const IpAddress& client) const {
  return options_.clients.empty() ||
         std::ranges::any_of(options_.clients, [&](const Network& n) { return n.Contains(client); });
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

SetupResult<void> Exports::Add(std::string_view path, std::shared_ptr<fs::FileSystem> file_system,
                               ExportOptions options) {
  PENSTOCK_TRY(std::string normal, NormalizeExportPath(path));
  const ExportId id = IdOf(normal);
  const auto place = std::lower_bound(exports_.begin(), exports_.end(), id, ById);
  if (place != exports_.end() && (*place)->id() == id) {
    if ((*place)->path() == normal) return std::unexpected(SetupError{fmt::format("\"{}\" is exported twice", normal)});
    return std::unexpected(SetupError{
        fmt::format("exports \"{}\" and \"{}\" have the same handle prefix; choose another path for one of them",
                    (*place)->path(), normal)});
  }
  exports_.insert(place,
                  std::make_unique<const Export>(id, std::move(normal), std::move(file_system), std::move(options)));
  return {};
}

const Export* Exports::Find(ExportId id) const {
  const auto place = std::lower_bound(exports_.begin(), exports_.end(), id, ById);
  return place != exports_.end() && (*place)->id() == id ? place->get() : nullptr;
}

void Exports::Refuse(const SocketAddress& client, const Export& refused) const {
  const ExportOptions& options = refused.options();
  const bool named = options.clients.empty() || std::ranges::any_of(options.clients, [&](const Network& network) {
                       return network.Contains(client.address());
                     });
  const std::string_view why = named ? "its port is not below 1024, which the export's option secure asks for"
                                     : "no option client= of the export names it";
  refusals_->Tell(client.address(), fmt::format("is refused the export {}: {}", refused.path(), why));
}

void Exports::RefuseProtection(const rpc::Peer& client, const Export& refused) const {
  const Protections& asked = refused.options().protections;
  const char* const least = asked.IsOnlyMutualTls() ? "mtls" : "tls";
  std::string why;
  if (asked.Admits(client.protection)) {
    why = fmt::format("its certificate, which has {}, is not among those of the export's option cert=",
                      client.certificate ? client.certificate->NamesToString() : "no names");
  } else if (client.transport == rpc::TransportKind::kRdma) {
    why = fmt::format("RDMA has no TLS, and the export has xprtsec={}; mount it with proto=tcp,xprtsec={}",
                      asked.ToString(), least);
  } else if (client.protection == rpc::Protection::kNone) {
    why = fmt::format("its connection has no TLS, and the export has xprtsec={}; mount it with xprtsec={}",
                      asked.ToString(), least);
  } else if (client.protection == rpc::Protection::kTls && asked.IsOnlyMutualTls()) {
    why =
        "its connection is without a certificate of the client, and the export has xprtsec=mtls; mount it with "
        "xprtsec=mtls";
  } else {
    why = fmt::format("its connection has TLS, which the export does not take (xprtsec={})", asked.ToString());
  }
  refusals_->Tell(client.address.address(), fmt::format("is refused the export {}: {}", refused.path(), why));
}

void Exports::RefuseAll(const SocketAddress& client) const {
  refusals_->Tell(client.address(), "is refused everything: no export admits it (options client= and secure)");
}

void Exports::Miss(const SocketAddress& client, const Export& missed) const {
  refusals_->Tell(client.address(),
                  fmt::format("cannot mount the export {}: its directory is gone; put it back and start penstock again",
                              missed.path()));
}

void Exports::CannotRefer(const SocketAddress& client, const Export& referral) const {
  refusals_->Tell(
      client.address(),
      fmt::format("cannot mount the export {} with version 2 or 3: it is a referral to another server, which "
                  "only clients of version 4 follow",
                  referral.path()));
}

Exports::Place Exports::Resolve(std::string_view path) const {
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
