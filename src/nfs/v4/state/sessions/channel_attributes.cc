#include "nfs/v4/state/sessions/channel_attributes.h"

#include <algorithm>

namespace penstock::nfs::v4 {
namespace {

// The sizes of a CB_COMPOUND with CB_SEQUENCE and CB_RECALL, and of its reply, for an AUTH_SYS credential of ordinary
// length and a filehandle of this server.
constexpr size_t kSmallestCallback = 280;
constexpr size_t kSmallestCallbackReply = 96;
// RPCSEC_GSS with Kerberos makes each longer by a verifier and by the longer of both seals. A call has a handle as
// well.
constexpr size_t kProtectionOfCallback = 140;
constexpr size_t kProtectionOfReply = 140;

}  // namespace

Result<nfs4::channel_attrs4, nfs4::nfsstat4> NegotiateFore(const nfs4::channel_attrs4& asked,
                                                           const Settings& settings) {
  if (asked.ca_maxrequestsize < kSmallestRequest || asked.ca_maxresponsesize < kSmallestReply) {
    return std::unexpected(nfs4::NFS4ERR_TOOSMALL);
  }
  nfs4::channel_attrs4 given = asked;
  given.ca_headerpadsize = 0;  // the server uses no header padding
  given.ca_maxrequestsize = std::min(asked.ca_maxrequestsize, settings.max_request);
  given.ca_maxresponsesize = std::min(asked.ca_maxresponsesize, settings.max_response);
  given.ca_maxresponsesize_cached =
      std::min({asked.ca_maxresponsesize_cached, given.ca_maxresponsesize, settings.max_cached_response});
  given.ca_maxoperations = std::clamp(asked.ca_maxoperations, 1u, settings.max_operations);
  given.ca_maxrequests = std::clamp(asked.ca_maxrequests, 1u, settings.max_slots);
  return given;
}

bool HasRoomForRecall(const nfs4::channel_attrs4& back, const rpc::ReverseProtection* protection) {
  const size_t request = kSmallestCallback + (protection ? kProtectionOfCallback + protection->handle_size() : 0);
  const size_t response = kSmallestCallbackReply + (protection ? kProtectionOfReply : 0);
  return back.ca_maxrequestsize >= request && back.ca_maxresponsesize >= response && back.ca_maxoperations >= 2 &&
         back.ca_maxrequests >= 1;
}

Result<nfs4::channel_attrs4, nfs4::nfsstat4> NegotiateBack(const nfs4::channel_attrs4& asked,
                                                           const rpc::ReverseProtection* protection) {
  if (!HasRoomForRecall(asked, protection)) return std::unexpected(nfs4::NFS4ERR_TOOSMALL);
  nfs4::channel_attrs4 given = asked;
  given.ca_headerpadsize = 0;
  // The client need not keep replies to callbacks, because it may safely execute each of them twice.
  given.ca_maxresponsesize_cached = std::min(asked.ca_maxresponsesize_cached, given.ca_maxresponsesize);
  return given;
}

}  // namespace penstock::nfs::v4
