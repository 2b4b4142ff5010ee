#include "client/ports.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "client/connect.h"
#include "client/set_up.h"
#include "protocol/mount.h"
#include "protocol/nlm4.h"
#include "rpc/client.h"
#include "rpcbind/remote_program.h"

namespace penstock::client {
namespace {

using rpc::TransportKind;

// The limit of an attempt after which others follow.
constexpr uint32_t kAttemptSeconds = 10;

rpcbind::RemoteOptions RemoteOptionsFor(const Url& url, Cancellation* cancellation) {
  rpcbind::RemoteOptions options;
  options.limit = std::min<Duration>(std::chrono::seconds(kAttemptSeconds), url.recovery.CallLimit());
  options.local_port = url.reserved_port ? LocalPort::kReserved : LocalPort::kAny;
  options.cancellation = cancellation;
  return options;
}

// Returns the reason in a message of OpenChannel().
std::string ReasonIn(const SetupError& error, const Url& url) {
  const std::string begin = fmt::format("{} port {}: ", url.host, url.port);
  return error.message.starts_with(begin) ? error.message.substr(begin.size()) : error.message;
}

template <class Null>
Task<Result<void, rpc::Error>> CallNull(rpc::Client& client) {
  const auto answer = co_await client.Call<Null>({});
  if (!answer) co_return std::unexpected(answer.error());
  co_return Result<void, rpc::Error>();
}

// A program that accompanies version 3 of NFS.
struct Companion {
  std::string_view name;
  uint32_t number;
  uint32_t version;
  Task<Result<void, rpc::Error>> (*call_null)(rpc::Client&);
};
template <class Null>
constexpr Companion CompanionWith(std::string_view name) {
  return {name, Null::kProgram, Null::kVersion, &CallNull<Null>};
}
constexpr Companion kMountCompanion = CompanionWith<mount3::MOUNTPROC3_NULL>("MOUNT");
constexpr Companion kLockCompanion = CompanionWith<nlm4::NLMPROC4_NULL>("NLM");

// The search for a program at several ports.
class Search {
 public:
  Search(Loop& loop, Workers& workers, Companion program, Url url, ChannelOptions options)
      : loop_(loop),
        workers_(workers),
        program_(program),
        url_(std::move(url)),
        options_(std::move(options)),
        cancellation_(options_.cancellation) {
    url_.protocol = Protocol::kTcp;
    url_.finds_port = false;
  }

  // Connects to this port, which must have the program.
  Task<SetupResult<MountService>> At(uint16_t port);
  // Connects to the first of these ports that has the program, or else to the one that rpcbind names.
  Task<SetupResult<MountService>> AtOneOf(std::vector<uint16_t> ports);

 private:
  using Opened = SetupResult<std::unique_ptr<rpc::Channel>>;
  // Connects to the port. Notes a failure.
  Task<Opened> OpenAt(uint16_t port, bool has_others);
  Task<Opened> OpenUdp() const;
  // Calls NULL, since another program may have the port.
  Task<SetupResult<void>> Check(rpc::Channel& channel);
  void Note(std::string what, SetupError why) {
    if (!attempts_.empty()) attempts_ += "; ";
    attempts_ += fmt::format("{}: {}", what, why.message);
    last_ = std::move(why);
  }

  Loop& loop_;
  Workers& workers_;
  const Companion program_;
  Url url_;
  const ChannelOptions options_;
  Cancellation* const cancellation_;
  std::string attempts_;
  SetupError last_;
};

Task<Search::Opened> Search::OpenUdp() const {
  const auto addresses = co_await FindAddresses(loop_, workers_, url_, cancellation_);
  if (!addresses) co_return std::unexpected(addresses.error());
  for (const SocketAddress& each : *addresses) {
    auto opened =
        co_await rpcbind::OpenRemoteAt(loop_, each, TransportKind::kUdp, RemoteOptionsFor(url_, cancellation_));
    if (opened) co_return *std::move(opened);
  }
  co_return std::unexpected(SetupError{"cannot be reached over UDP", EHOSTUNREACH});
}

Task<SetupResult<void>> Search::Check(rpc::Channel& channel) {
  const Cancellation::Entry entry(cancellation_, [&channel] { channel.Close(); });
  rpc::Client client(channel, loop_.buffers(), rpc::RandomXid());
  const auto answer = co_await program_.call_null(client);
  // The channel must outlive the turn of the loop that delivered its reply.
  co_await Sleep(loop_, Duration::zero());
  if (answer) co_return SetupResult<void>();
  co_return std::unexpected(
      SetupError{fmt::format("no {}: {}", program_.name, rpc::Describe(answer.error())), ErrnoOf(answer.error())});
}

Task<Search::Opened> Search::OpenAt(uint16_t port, bool has_others) {
  url_.port = port;
  const RecoveryOptions recovery = url_.recovery;
  if (has_others) url_.recovery.LimitTo(kAttemptSeconds);
  Opened opened;
  if (url_.mount_over_udp) {
    opened = co_await OpenUdp();
  } else {
    opened = co_await OpenChannel(loop_, workers_, url_, nullptr, options_);
  }
  url_.recovery = recovery;
  if (opened && (has_others || url_.mount_over_udp)) {
    const auto checked = co_await Check(**opened);
    if (!checked) opened = std::unexpected(checked.error());
  }
  if (!opened) Note(fmt::format("port {}", port), {ReasonIn(opened.error(), url_), opened.error().number});
  co_return opened;
}

Task<SetupResult<MountService>> Search::AtOneOf(std::vector<uint16_t> ports) {
  for (const uint16_t port : ports) {
    Opened opened = co_await OpenAt(port, true);
    if (IsCancelled(cancellation_)) co_return std::unexpected(SetupError{std::string(kClosing), ECANCELED});
    if (opened) co_return MountService{*std::move(opened), url_};
  }
  const TransportKind transport = url_.mount_over_udp ? TransportKind::kUdp : TransportKind::kTcp;
  const auto port =
      co_await PortByRpcbind(loop_, workers_, url_, program_.number, program_.version, transport, cancellation_);
  if (!port) Note("rpcbind", port.error());
  if (!port || std::ranges::find(ports, *port) != ports.end()) {
    co_return std::unexpected(SetupError{fmt::format("{}: {}", url_.host, attempts_), last_.number});
  }
  Opened opened = co_await OpenAt(*port, true);
  if (opened) co_return MountService{*std::move(opened), url_};
  co_return std::unexpected(SetupError{fmt::format("{}: {} (as rpcbind says)", url_.host, attempts_), last_.number});
}

Task<SetupResult<MountService>> Search::At(uint16_t port) {
  Opened opened = co_await OpenAt(port, false);
  if (opened) co_return MountService{*std::move(opened), url_};
  co_return std::unexpected(SetupError{fmt::format("{} {}", url_.host, attempts_), last_.number});
}

}  // namespace

Task<SetupResult<uint16_t>> PortByRpcbind(Loop& loop, Workers& workers, const Url& url, uint32_t program,
                                          uint32_t version, TransportKind transport, Cancellation* cancellation) {
  const auto addresses = co_await FindAddresses(loop, workers, url, cancellation);
  if (!addresses) co_return std::unexpected(addresses.error());
  SetupError why{"has no address", EHOSTUNREACH};
  for (const SocketAddress& each : *addresses) {
    const rpcbind::RemoteProgram asked{
        .host = each.address(), .program = program, .version = version, .transport = transport};
    const auto found = co_await rpcbind::FindRemote(loop, asked, RemoteOptionsFor(url, cancellation));
    if (found) co_return found->port();
    why = found.error() == rpcbind::RemoteError::kNotRegistered
              ? SetupError{"it does not know the program", ENOENT}
              : SetupError{"it does not answer at port 111", ECONNREFUSED};
  }
  co_return std::unexpected(why);
}

Task<SetupResult<MountService>> OpenMountService(Loop& loop, Workers& workers, const Url& url,
                                                 Cancellation* cancellation) {
  constexpr uint16_t kUsualPort = 20048;
  Url asked = url;
  if (!url.mount_host.empty()) asked.host = url.mount_host;
  asked.family = url.mount_family.value_or(url.family);
  ChannelOptions options;
  options.cancellation = cancellation;
  Search search(loop, workers, kMountCompanion, asked, std::move(options));
  if (url.mount_port) co_return co_await search.At(*url.mount_port);
  std::vector<uint16_t> ports = {kUsualPort};
  // The port of RDMA has no MOUNT over TCP.
  const bool has_own = url.protocol != Protocol::kRdma && url.mount_host.empty() && !url.mount_over_udp;
  if (has_own && url.port != kUsualPort) ports.insert(ports.begin(), url.port);
  auto found = co_await search.AtOneOf(std::move(ports));
  if (found) log::info("{}: MOUNT is at port {}", found->url.host, found->url.port);
  co_return found;
}

Task<SetupResult<std::unique_ptr<rpc::Channel>>> OpenLockManager(Loop& loop, Workers& workers, const Url& url,
                                                                 ChannelOptions options) {
  Url asked = url;
  asked.mount_over_udp = false;
  Search search(loop, workers, kLockCompanion, asked, std::move(options));
  std::vector<uint16_t> ports;
  if (url.protocol != Protocol::kRdma) ports.push_back(url.port);
  // Some servers have all of the programs beside NFS at one port.
  if (url.mount_port && url.mount_host.empty() && !url.mount_over_udp && *url.mount_port != url.port) {
    ports.push_back(*url.mount_port);
  }
  auto found = co_await search.AtOneOf(std::move(ports));
  if (!found) co_return std::unexpected(std::move(found).error());
  log::info("{}: NLM is at port {}", found->url.host, found->url.port);
  co_return std::move(found->channel);
}

}  // namespace penstock::client
