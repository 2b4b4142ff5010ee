#include "server/copy_sources.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/host.h"
#include "base/host_shares.h"
#include "base/log.h"
#include "client/nfs4/foreign_file.h"
#include "client/set_up.h"
#include "rpc/client_key.h"
#include "rpc/universal_address.h"

namespace penstock::server {

using client::v4::ForeignFile;

// The work for one COPY, from the search for its source to the end of the connection. Belongs to the loop.
struct NetworkCopySources::Work {
  Loop& loop;
  const IpAddress client;
  Cancellation cancellation{};
};

// The works that are under way.
struct NetworkCopySources::Table {
  explicit Table(const Settings& settings)
      : shares({.all = settings.most, .per_host = settings.most_of_host, .free_for_one = 0}) {}

  std::mutex mutex;  // guards the members, for the time of one access
  HostShares shares;
  bool aborted = false;
  std::set<std::shared_ptr<Work>> works;

  // Returns null after Abort(), and if there is no room.
  std::shared_ptr<Work> Begin(const rpc::Peer& peer) {
    const std::scoped_lock lock(mutex);
    const IpAddress client = peer.address.address();
    if (aborted || !shares.Take(client)) return nullptr;
    return *works.insert(std::make_shared<Work>(*peer.loop, client)).first;
  }
  void End(const std::shared_ptr<Work>& work) {
    const std::scoped_lock lock(mutex);
    works.erase(work);
    shares.Return(work->client);
  }
  bool empty() {
    const std::scoped_lock lock(mutex);
    return works.empty();
  }
};

// An open file, shared by its Source and by the coroutine that closes it.
class NetworkCopySources::OpenFile {
 public:
  OpenFile(std::unique_ptr<ForeignFile> file, std::shared_ptr<Work> work, std::shared_ptr<Table> table)
      : file_(std::move(file)), work_(std::move(work)), table_(std::move(table)) {}

  ForeignFile& file() { return *file_; }

  static Task<> Close(std::shared_ptr<OpenFile> self) {
    co_await self->file_->Close();
    self->file_.reset();
    const auto table = self->table_;
    const auto work = self->work_;
    self.reset();
    table->End(work);
  }

 private:
  std::unique_ptr<ForeignFile> file_;  // null once it is closed
  const std::shared_ptr<Work> work_;
  const std::shared_ptr<Table> table_;
  const Cancellation::Entry entry_{&work_->cancellation, [this] {
                                     if (file_) file_->Abort();
                                   }};
};

class NetworkCopySources::Source final : public nfs::v4::CopySource {
 public:
  Source(std::shared_ptr<OpenFile> open, std::string who)
      : CopySource(open->file().attributes().size), open_(std::move(open)), who_(std::move(who)) {}
  ~Source() override { Spawn(OpenFile::Close(std::move(open_))); }

  Task<std::optional<Read>> ReadAt(uint64_t offset, Bytes into) override {
    const auto read = co_await open_->file().Read(offset, into);
    if (read) co_return Read{read->count, read->eof};
    log::info("{} ends: {}", who_, read.error().message);
    co_return std::nullopt;
  }

 private:
  std::shared_ptr<OpenFile> open_;
  const std::string who_;  // in messages
};

namespace {

// Returns the addresses of the list that can be reached over TCP. Names and URLs are left out: a look-up would depend
// on what this server's resolver says, and the servers of today give addresses.
std::vector<SocketAddress> AddressesOf(const std::vector<nfs4::netloc4>& servers, size_t most) {
  std::vector<SocketAddress> addresses;
  for (const nfs4::netloc4& server : servers) {
    if (addresses.size() == most) break;
    if (!server.is_nl_addr()) continue;
    const auto network = rpc::ParseNetid(server.nl_addr().na_r_netid);
    if (!network || network->transport != rpc::TransportKind::kTcp) continue;
    const auto address = rpc::ParseUniversalAddress(*network, server.nl_addr().na_r_addr);
    // The unspecified address names no server, but a connection to it reaches this host (see PortTowards).
    if (address && !Unmapped(address->address()).is_unspecified()) addresses.push_back(*address);
  }
  return addresses;
}

rpc::SystemIdentity IdentityOf(const fs::Credentials& user) {
  const auto groups = user.groups.first(std::min<size_t>(user.groups.size(), 16));
  return {.machine = client::HostName(), .uid = user.uid, .gid = user.gid, .groups = {groups.begin(), groups.end()}};
}

// A server of this host takes root over loopback from a reserved port for this host's root (nfs::IsFromLocalRoot),
// which a client is not.
LocalPort PortTowards(const SocketAddress& server) {
  return Unmapped(server.address()).is_loopback() ? LocalPort::kAny : LocalPort::kReserved;
}

// Names a copy in messages, by the client that has asked for it.
std::string CopyOf(const rpc::Peer& peer) {
  return fmt::format("a copy from another server, for the client at {}", peer.address.address().to_string());
}

}  // namespace

NetworkCopySources::NetworkCopySources(const Settings& settings, std::vector<SocketAddress> tcp)
    : settings_(settings), tcp_(std::move(tcp)), table_(std::make_shared<Table>(settings)) {}
SocketAddress NetworkCopySources::AddressFor(const rpc::Peer& peer) const {
  assert(!tcp_.empty());
  const IpAddress local = Unmapped(peer.local.address());
  const auto serves = [&](const SocketAddress& each) {
    const IpAddress& address = each.address();
    return address == local || (address.is_unspecified() && address.is_v4() == local.is_v4());
  };
  const auto found = std::ranges::find_if(tcp_, serves);
  return found == tcp_.end() ? tcp_.front() : SocketAddress(local, found->port());
}

NetworkCopySources::~NetworkCopySources() = default;

void NetworkCopySources::TellNoSource(const rpc::Peer& peer, const std::string& why) {
  if (told_.Allows(peer.loop->Now())) log::info("{} has no source: {}", CopyOf(peer), why);
}

Task<std::unique_ptr<ForeignFile>> NetworkCopySources::Connect(const rpc::Peer& peer, const Request& request,
                                                               Cancellation& cancellation) {
  for (const SocketAddress& server : AddressesOf(request.servers, settings_.most_servers)) {
    ForeignFile::Target target{.server = server,
                               .file = client::Handle(request.file.bytes()),
                               .stateid = request.stateid,
                               .user = IdentityOf(request.user),
                               .local_port = PortTowards(server)};
    auto connected = co_await ForeignFile::Connect(
        *peer.loop, std::move(target),
        {.connect = settings_.connect_limit, .call = settings_.call_limit, .cancellation = &cancellation});
    if (connected) co_return *std::move(connected);
    if (cancellation.cancelled()) break;
    TellNoSource(peer, connected.error().message);
  }
  co_return nullptr;
}

Task<std::unique_ptr<nfs::v4::CopySource>> NetworkCopySources::Open(const rpc::Peer& peer, Request request) {
  const std::shared_ptr<Work> work = table_->Begin(peer);
  if (!work) co_return nullptr;
  auto connected = co_await Connect(peer, request, work->cancellation);
  if (!connected) {
    table_->End(work);
    co_return nullptr;
  }
  auto file = std::make_shared<OpenFile>(std::move(connected), work, table_);
  if (!work->cancellation.cancelled()) {
    const auto opened = co_await file->file().Open();
    if (opened) co_return std::make_unique<Source>(std::move(file), CopyOf(peer));
    TellNoSource(peer, opened.error().message);
  }
  co_await OpenFile::Close(std::move(file));
  co_return nullptr;
}

void NetworkCopySources::Abort() {
  const std::scoped_lock lock(table_->mutex);
  table_->aborted = true;
  for (const auto& work : table_->works) {
    work->loop.Post([work] { work->cancellation.Cancel(); });
  }
}

Task<> NetworkCopySources::Stop(TimerService& timers) {
  while (!table_->empty()) co_await Sleep(timers, std::chrono::milliseconds(10));
}

}  // namespace penstock::server
