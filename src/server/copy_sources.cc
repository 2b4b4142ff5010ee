#include "server/copy_sources.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/host.h"
#include "base/log.h"
#include "client/nfs4/foreign_file.h"
#include "client/set_up.h"
#include "rpc/client_key.h"
#include "rpc/universal_address.h"

namespace penstock::server {

using client::v4::ForeignFile;

// The search for a server that can be reached.
struct NetworkCopySources::Attempt {
  Loop& loop;
  Cancellation cancellation{};
};

// The files that are open, and those that are about to be opened or closed.
struct NetworkCopySources::Table {
  std::mutex mutex;  // guards the members, for the time of one access
  std::map<IpAddress, size_t> of_host;
  size_t count = 0;
  bool aborted = false;
  std::set<std::shared_ptr<OpenFile>> files;
  std::set<std::shared_ptr<Attempt>> attempts;

  bool Enter(const IpAddress& host, const Settings& settings) {
    const std::scoped_lock lock(mutex);
    if (aborted || count >= settings.most) return false;
    const auto entry = of_host.try_emplace(host, 0).first;
    if (entry->second >= settings.most_of_host) return false;
    ++entry->second;
    ++count;
    return true;
  }
  void Leave(const IpAddress& host) {
    const std::scoped_lock lock(mutex);
    const auto entry = of_host.find(host);
    if (--entry->second == 0) of_host.erase(entry);
    --count;
  }
  // Returns false after Abort(): the caller then closes the file at once.
  bool Add(const std::shared_ptr<OpenFile>& file) {
    const std::scoped_lock lock(mutex);
    if (!aborted) files.insert(file);
    return !aborted;
  }
  void Remove(const std::shared_ptr<OpenFile>& file) {
    const std::scoped_lock lock(mutex);
    files.erase(file);
  }
  // Returns false after Abort(): the caller then does not begin.
  bool Add(const std::shared_ptr<Attempt>& attempt) {
    const std::scoped_lock lock(mutex);
    if (!aborted) attempts.insert(attempt);
    return !aborted;
  }
  void Remove(const std::shared_ptr<Attempt>& attempt) {
    const std::scoped_lock lock(mutex);
    attempts.erase(attempt);
  }
  bool empty() {
    const std::scoped_lock lock(mutex);
    return count == 0;
  }
};

// An open file, shared by its Source and by the coroutine that closes it.
class NetworkCopySources::OpenFile {
 public:
  OpenFile(Loop& loop, std::unique_ptr<ForeignFile> file, IpAddress host, std::shared_ptr<Table> table)
      : loop_(loop), file_(std::move(file)), host_(host), table_(std::move(table)) {}

  Loop& loop() const { return loop_; }
  ForeignFile& file() { return *file_; }

  static Task<> Close(std::shared_ptr<OpenFile> self) {
    co_await self->file_->Close();
    self->file_.reset();
    const auto table = self->table_;
    const IpAddress host = self->host_;
    table->Remove(self);
    self.reset();
    table->Leave(host);
  }
  // On the loop.
  void Abort() {
    if (file_) file_->Abort();
  }

 private:
  Loop& loop_;
  std::unique_ptr<ForeignFile> file_;  // null once it is closed
  const IpAddress host_;
  const std::shared_ptr<Table> table_;
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

NetworkCopySources::NetworkCopySources(const Settings& settings, uint16_t tcp_port)
    : settings_(settings), tcp_port_(tcp_port), table_(std::make_shared<Table>()) {}
NetworkCopySources::~NetworkCopySources() = default;

Task<std::unique_ptr<ForeignFile>> NetworkCopySources::Connect(const rpc::Peer& peer, const Request& request) {
  const auto attempt = std::make_shared<Attempt>(*peer.loop);
  if (!table_->Add(attempt)) co_return nullptr;
  std::unique_ptr<ForeignFile> file;
  for (const SocketAddress& server : AddressesOf(request.servers, settings_.most_servers)) {
    ForeignFile::Target target{.server = server,
                               .file = client::Handle(request.file.bytes()),
                               .stateid = request.stateid,
                               .user = IdentityOf(request.user),
                               .local_port = PortTowards(server)};
    auto connected = co_await ForeignFile::Connect(
        *peer.loop, std::move(target),
        {.connect = settings_.connect_limit, .call = settings_.call_limit, .cancellation = &attempt->cancellation});
    if (connected) file = *std::move(connected);
    if (connected || attempt->cancellation.cancelled()) break;
    log::info("{} has no source: {}", CopyOf(peer), connected.error().message);
  }
  table_->Remove(attempt);
  co_return file;
}

Task<std::unique_ptr<nfs::v4::CopySource>> NetworkCopySources::Open(const rpc::Peer& peer, Request request) {
  const IpAddress host = HostOf(peer.address.address());
  if (!table_->Enter(host, settings_)) co_return nullptr;
  auto connected = co_await Connect(peer, request);
  if (!connected) {
    table_->Leave(host);
    co_return nullptr;
  }
  auto file = std::make_shared<OpenFile>(*peer.loop, std::move(connected), host, table_);
  if (table_->Add(file)) {
    const auto opened = co_await file->file().Open();
    if (opened) co_return std::make_unique<Source>(std::move(file), CopyOf(peer));
    log::info("{} has no source: {}", CopyOf(peer), opened.error().message);
  }
  co_await OpenFile::Close(std::move(file));
  co_return nullptr;
}

void NetworkCopySources::Abort() {
  const std::scoped_lock lock(table_->mutex);
  table_->aborted = true;
  for (const auto& file : table_->files) {
    file->loop().Post([file] { file->Abort(); });
  }
  for (const auto& attempt : table_->attempts) {
    attempt->loop.Post([attempt] { attempt->cancellation.Cancel(); });
  }
}

Task<> NetworkCopySources::Stop(TimerService& timers) {
  while (!table_->empty()) co_await Sleep(timers, std::chrono::milliseconds(10));
}

}  // namespace penstock::server
