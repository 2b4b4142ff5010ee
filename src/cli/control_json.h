// How the answers of the control socket show clients, connections and states (docs/control.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "base/timer.h"
#include "nfs/exports.h"
#include "server/administration.h"

namespace penstock::cli {

using Json = nlohmann::json;

double Seconds(Duration duration);

// ParseClientId() and ParseStateId() read these again.
std::string TextOf(nfs::v4::ClientId id);
// The part of a stateid that does not change while its state exists.
std::string TextOf(const nfs4::stateid4& id);
// "rdma" or "tcp"
std::string_view TransportOf(const rpc::ConnectionTable::Shown& connection);

Json JsonOf(const rpc::ConnectionTable::Shown& connection);
// An export, with its groups of clients.
Json JsonOf(const nfs::Export& exported);
Json JsonOf(const nfs::v4::ShownSession& session);
// A client that has an ID, with the addresses and transports of its connections.
Json JsonOf(const nfs::v4::ShownClient& client, const std::set<std::string>& addresses,
            const std::set<std::string>& transports);
// `path`: of the file, or what is known of it.
Json JsonOf(const nfs::v4::ShownState& state, std::string path);

}  // namespace penstock::cli
