// COPY_NOTIFY: this server lets another one read a file, to copy it (RFC 7862 §15.3).
#include <fmt/core.h>

#include <chrono>

#include "nfs/v4/operations/copy_sources.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/operations.h"
#include "rpc/universal_address.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 7862

namespace {

// The longest name of a destination that is remembered, in octets.
constexpr size_t kLongestDestination = 1024;

std::string TextOf(const netloc4& place) {
  if (place.is_nl_name()) return fmt::format("name {}", place.nl_name());
  if (place.is_nl_url()) return fmt::format("url {}", place.nl_url());
  return fmt::format("{} {}", place.nl_addr().na_r_netid, place.nl_addr().na_r_addr);
}

netloc4 LocationOf(const SocketAddress& address, std::string& text) {
  text = rpc::UniversalAddress(address);
  const rpc::Netid network{.transport = rpc::TransportKind::kTcp, .v6 = address.address().is_v6()};
  return netloc4(NL4_NETADDR, netaddr4{.na_r_netid = rpc::ToString(network), .na_r_addr = text});
}

}  // namespace

Task<COPY_NOTIFY4res> NotifyOfCopy(Compound& compound, const COPY_NOTIFY4args& arguments) {
  const CopySources* const sources = compound.services.copy_sources;
  if (!sources) co_return COPY_NOTIFY4res(NFS4ERR_NOTSUPP);
  if (!compound.session) co_return COPY_NOTIFY4res(NFS4ERR_OP_NOT_IN_SESSION);
  const Object& file = *compound.current;
  auto id = ResolveStateId(compound, arguments.cna_src_stateid);
  if (!id) co_return COPY_NOTIFY4res(id.error());
  // A special stateid refers to no state.
  if (IsAnonymous(*id) || IsReadBypass(*id)) co_return COPY_NOTIFY4res(NFS4ERR_BAD_STATEID);
  const nfsstat4 status = co_await CheckRead(compound, arguments.cna_src_stateid, file);
  if (status != NFS4_OK) co_return COPY_NOTIFY4res(status);
  id->seqid = 0;
  CopyNotices::Notice notice{.client = compound.session->client,
                             .file = file.handle(),
                             .source = *id,
                             .destination = TextOf(arguments.cna_destination_server),
                             .user = file.caller(),
                             .until = compound.now() + compound.services.settings.lease};
  if (notice.destination.size() > kLongestDestination) co_return COPY_NOTIFY4res(NFS4ERR_INVAL);
  const auto stateid = compound.services.state.Run([&](StateTables& state) {
    const auto lasts = [&](const CopyNotices::Notice& each) {
      const Client* const client = state.clients.Find(each.client);
      return client && state.files.ClientOf({client->dialect, client->id}, each.source).has_value();
    };
    return state.copy_notices.Give(std::move(notice), compound.services.random(), compound.now(), lasts);
  });
  // Other clients may have taken all the room, so the client must not wait for it: it copies the data itself.
  if (!stateid) co_return COPY_NOTIFY4res(NFS4ERR_PARTNER_NO_AUTH);
  const auto lease = std::chrono::ceil<std::chrono::seconds>(compound.services.settings.lease);
  COPY_NOTIFY4resok result{
      .cnr_lease_time = {.seconds = lease.count(), .nseconds = 0}, .cnr_stateid = *stateid, .cnr_source_server = {}};
  result.cnr_source_server.push_back(LocationOf(sources->AddressFor(compound.call.peer), compound.result_text));
  co_return COPY_NOTIFY4res(NFS4_OK, std::move(result));
}

}  // namespace penstock::nfs::v4
