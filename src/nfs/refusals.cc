#include "nfs/refusals.h"

#include <fmt/core.h>

#include <string>

#include "base/host.h"
#include "fs/file_system.h"
#include "nfs/exports.h"
#include "nfs_protocol/security_flavors.h"
#include "rpc/tls/certificate.h"

namespace penstock::nfs {
namespace {

// The errors that RFC 1094, RFC 1813 and RFC 8881 number alike.
constexpr uint32_t kPerm = 1;
constexpr uint32_t kAccess = 13;
constexpr uint32_t kReadOnly = 30;
constexpr uint32_t kStale = 70;
constexpr uint32_t kBadHandle = 10001;
constexpr uint32_t kMinorVersion = 10021;

std::string UserOf(const rpc::Credential& credential) {
  if (credential.initiator) return credential.initiator->display;
  if (credential.flavor == rpc::AuthFlavor::AUTH_NONE) return "nobody";
  return fmt::format("uid {}", credential.uid);
}

// "SETATTR of version 3" for NFSPROC3_SETATTR.
std::string OperationOf(const rpc::CallContext& call, std::string_view name) {
  if (name.empty()) return {};
  const size_t prefix = name.find('_');
  return fmt::format("{} of version {}", prefix == std::string_view::npos ? name : name.substr(prefix + 1),
                     call.version);
}

}  // namespace

bool IsSquashedRoot(const rpc::Credential& credential, const fs::RequestContext& context) {
  return credential.flavor != rpc::AuthFlavor::AUTH_NONE && credential.uid == 0 && context.credentials.uid != 0;
}

void Refusals::Refuse(const SocketAddress& client, const Export& refused) const {
  const bool is_port = refused.AdmitsHost(client.address());
  log_->Tell({.client = client.address(), .reason = is_port ? "secure" : "client", .export_path = refused.path()}, [&] {
    const std::string_view why = is_port ? "its port is not below 1024, which the export's option secure asks for"
                                         : "the export names other clients (exports(5), or the option client=)";
    return RefusalDetails{.text = fmt::format("is refused the export {}: {}", refused.path(), why)};
  });
}

void Refusals::RefuseProtection(const rpc::Peer& client, const Export& refused) const {
  const ExportOptions* const options = refused.OptionsFor(client);
  if (!options) return Refuse(client.address, refused);
  const Protections& asked = options->protections;
  const bool is_certificate = asked.Admits(client.protection);
  const bool is_rdma = client.transport == rpc::TransportKind::kRdma;
  const bool lacks_mutual = client.protection == rpc::Protection::kTls && asked.IsOnlyMutualTls();
  const char* const reason = is_certificate ? "certificate" : is_rdma ? "rdma" : lacks_mutual ? "mtls" : "xprtsec";
  const Refusal refusal{.client = client.address.address(), .reason = reason, .export_path = refused.path()};
  log_->Tell(refusal, [&] {
    const char* const least = asked.IsOnlyMutualTls() ? "mtls" : "tls";
    std::string why;
    if (is_certificate) {
      why = fmt::format("its certificate, which has {}, is not among those of the export's option cert=",
                        client.certificate ? client.certificate->NamesToString() : "no names");
    } else if (is_rdma) {
      why = fmt::format("RDMA has no TLS, and the export has xprtsec={}; mount it with proto=tcp,xprtsec={}",
                        asked.ToString(), least);
    } else if (client.protection == rpc::Protection::kNone) {
      why = fmt::format("its connection has no TLS, and the export has xprtsec={}; mount it with xprtsec={}",
                        asked.ToString(), least);
    } else if (lacks_mutual) {
      why =
          "its connection is without a certificate of the client, and the export has xprtsec=mtls; mount it with "
          "xprtsec=mtls";
    } else {
      why = fmt::format("its connection has TLS, which the export does not take (xprtsec={})", asked.ToString());
    }
    return RefusalDetails{.text = fmt::format("is refused the export {}: {}", refused.path(), why)};
  });
}

void Refusals::RefuseFlavor(const rpc::CallContext& call, const Export& refused, const SecurityFlavors& taken) const {
  const Refusal refusal{.client = call.peer.address.address(), .reason = "sec", .export_path = refused.path()};
  log_->Tell(refusal, [&] {
    const std::string_view used = nfs_protocol::NameOf(nfs_protocol::FlavorOf(call.credential));
    const std::string where = refused.path().empty() ? std::string("the directories above the exports")
                                                     : fmt::format("the export {}", refused.path());
    const ExportOptions* const options = refused.OptionsFor(call.peer);
    if (!refused.path().empty() && options && options->security.Admits(call.credential)) {
      return RefusalDetails{.text = fmt::format("is refused {}: the export's option secure asks for a port below 1024 "
                                                "for calls with sec={}",
                                                where, used),
                            .user = UserOf(call.credential)};
    }
    return RefusalDetails{.text = fmt::format("is refused {}: it takes no calls with sec={}, but those with sec={} "
                                              "(the option sec= names the flavors)",
                                              where, used, taken.ToString()),
                          .user = UserOf(call.credential)};
  });
}

void Refusals::RefuseAll(const SocketAddress& client) const {
  log_->Tell({.client = client.address(), .reason = "client"}, [] {
    return RefusalDetails{.text = "is refused everything: no export admits it (options client= and secure)"};
  });
}

void Refusals::RefusePath(const SocketAddress& client, std::string_view path) const {
  log_->Tell({.client = client.address(), .reason = "no_export"}, [path] {
    return RefusalDetails{.text = fmt::format("cannot mount \"{}\": no export has this path", path)};
  });
}

void Refusals::RefuseWay(const SocketAddress& client, const Export& in, std::string_view path,
                         std::string_view why) const {
  log_->Tell({.client = client.address(), .reason = "path", .export_path = in.path()},
             [&] { return RefusalDetails{.text = fmt::format("cannot mount \"{}\": {}", path, why)}; });
}

void Refusals::Miss(const SocketAddress& client, const Export& missed) const {
  log_->Tell({.client = client.address(), .reason = "no_directory", .export_path = missed.path()}, [&] {
    return RefusalDetails{
        .text = fmt::format("cannot mount the export {}: its directory is gone; put it back, and reload the server",
                            missed.path())};
  });
}

void Refusals::CannotRefer(const SocketAddress& client, const Export& referral) const {
  log_->Tell({.client = client.address(), .reason = "referral", .export_path = referral.path()}, [&] {
    return RefusalDetails{
        .text = fmt::format("cannot mount the export {} with version 2 or 3: it is a referral to another server, which "
                            "only clients of version 4 follow",
                            referral.path())};
  });
}

void Refusals::HandleFailure(const Failed& failed) const {
  const rpc::CallContext& call = failed.call;
  if (call.outcome.told) return;
  const auto tell = [&](std::string_view reason, auto text) {
    const std::string_view path = failed.in ? std::string_view(failed.in->path()) : std::string_view();
    log_->Tell({.client = call.peer.address.address(), .reason = reason, .export_path = path}, [&] {
      return RefusalDetails{
          .text = text(path), .user = UserOf(call.credential), .operation = OperationOf(call, failed.operation)};
    });
  };
  switch (failed.status) {
    case kPerm:
    case kAccess: {
      if (!failed.root_is_squashed || !failed.in || !squash_matters_) return;
      const ExportOptions* const options = failed.in->OptionsFor(call.peer);
      if (!options) return;
      return tell("root_squash", [&](std::string_view path) {
        const Squash squash = options->SquashFor(nfs_protocol::FlavorOf(call.credential));
        const bool is_local = squash == Squash::kForeignRoot && Unmapped(call.peer.address.address()).is_loopback();
        return fmt::format(
            "is refused an operation of its root in the export {}: its root has the rights of uid {} there, because of "
            "the option {}",
            path, options->anonuid,
            squash == Squash::kAll ? "all_squash"
            : is_local             ? "root_squash (no_root_squash would give it those of root; root of this host has "
                                     "them if its port is below 1024)"
                                   : "root_squash (no_root_squash would give it those of root)");
      });
    }
    case kReadOnly:
      return tell(failed.read_only ? "ro" : "ro_file_system", [&](std::string_view path) {
        if (path.empty()) return std::string("is refused a change of the directories above the exports");
        return fmt::format("is refused a change in the export {}: {}", path,
                           failed.read_only ? "the export is read-only for it (option ro; rw would allow it)"
                                            : "its file system, or this part of it, is read-only");
      });
    case kStale:
      if (failed.in && failed.in->is_referral()) {
        return tell("referral", [](std::string_view path) {
          return fmt::format(
              "has a file handle of the export {}, which is a referral to another server now: only clients of version "
              "4 "
              "follow it there",
              path);
        });
      }
      return tell(failed.in ? "stale" : "export_gone", [&](std::string_view path) {
        if (!failed.in) return std::string("has a file handle of an export that is gone, or of another server");
        return fmt::format("has a file handle of a file in the export {} that is gone: it was removed, or replaced",
                           path);
      });
    case kBadHandle:
      return tell("bad_handle", [&](std::string_view path) {
        if (!failed.in) return std::string("has a file handle that is malformed, or of another server");
        return fmt::format("has a file handle that the export {} has not given: of another server, or forged", path);
      });
    case kMinorVersion:
      return tell("version", [](std::string_view /*path*/) {
        return std::string("is refused a minor version of NFS version 4: the server has 4.0, 4.1 and 4.2");
      });
    default:
      return;
  }
}

void Refusals::HandleFailure(const rpc::CallContext& call, const Export* in) const {
  const rpc::CallOutcome& outcome = call.outcome;
  HandleFailure({.call = call,
                 .operation = outcome.procedure,
                 .status = outcome.status,
                 .in = in,
                 .root_is_squashed = outcome.root_is_squashed,
                 .read_only = outcome.read_only});
}

}  // namespace penstock::nfs
