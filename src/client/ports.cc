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
#include "rpc/client.h"
#include "rpcbind/remote_program.h"

namespace penstock::client {
namespace {

using mount3::MOUNTPROC3_NULL;
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

// The search for MOUNT at several ports.
class Search {
 public:
  Search(Loop& loop, Workers& workers, const Url& url, Cancellation* cancellation)
      : loop_(loop), workers_(workers), url_(url), cancellation_(cancellation) {
    url_.protocol = Protocol::kTcp;
    url_.finds_port = false;
    if (!url.mount_host.empty()) url_.host = url.mount_host;
  }

  Task<SetupResult<MountService>> Run(const Url& asked);

 private:
  using Opened = SetupResult<std::unique_ptr<rpc::Channel>>;
  // Connects to the port. Notes a failure.
  Task<Opened> OpenAt(uint16_t port, bool has_others);
  Task<Opened> OpenUdp() const;
  // Calls NULL, since another program may have the port.
  Task<SetupResult<void>> Check(rpc::Channel& channel);
  Task<SetupResult<MountService>> TryAll(const Url& asked);
  void Note(std::string what, SetupError why) {
    if (!attempts_.empty()) attempts_ += "; ";
    attempts_ += fmt::format("{}: {}", what, why.message);
    last_ = std::move(why);
  }

  Loop& loop_;
  Workers& workers_;
  Url url_;
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
  const auto answer = co_await client.Call<MOUNTPROC3_NULL>({});
  // The channel must outlive the turn of the loop that delivered its reply.
  co_await Sleep(loop_, Duration::zero());
  if (answer) co_return SetupResult<void>();
  co_return std::unexpected(
      SetupError{fmt::format("no MOUNT: {}", rpc::Describe(answer.error())), ErrnoOf(answer.error())});
}

Task<Search::Opened> Search::OpenAt(uint16_t port, bool has_others) {
  url_.port = port;
  const RecoveryOptions recovery = url_.recovery;
  if (has_others) url_.recovery.LimitTo(kAttemptSeconds);
  ChannelOptions options;
  options.cancellation = cancellation_;
  Opened opened;
  if (url_.mount_over_udp) {
    opened = co_await OpenUdp();
  } else {
    opened = co_await OpenChannel(loop_, workers_, url_, nullptr, options);
  }
  url_.recovery = recovery;
  if (opened && (has_others || url_.mount_over_udp)) {
    const auto checked = co_await Check(**opened);
    if (!checked) opened = std::unexpected(checked.error());
  }
  if (!opened) Note(fmt::format("port {}", port), {ReasonIn(opened.error(), url_), opened.error().number});
  co_return opened;
}

Task<SetupResult<MountService>> Search::TryAll(const Url& asked) {
  constexpr uint16_t kUsualPort = 20048;
  std::vector<uint16_t> ports = {kUsualPort};
  // The port of RDMA has no MOUNT over TCP.
  const bool has_own = asked.protocol != Protocol::kRdma && asked.mount_host.empty() && !asked.mount_over_udp;
  if (has_own && asked.port != kUsualPort) ports.insert(ports.begin(), asked.port);
  for (const uint16_t port : ports) {
    Opened opened = co_await OpenAt(port, true);
    if (IsCancelled(cancellation_)) co_return std::unexpected(SetupError{std::string(kClosing), ECANCELED});
    if (opened) co_return MountService{*std::move(opened), url_};
  }
  const TransportKind transport = asked.mount_over_udp ? TransportKind::kUdp : TransportKind::kTcp;
  const auto port = co_await PortByRpcbind(loop_, workers_, url_, MOUNTPROC3_NULL::kProgram, MOUNTPROC3_NULL::kVersion,
                                           transport, cancellation_);
  if (!port) Note("rpcbind", port.error());
  if (!port || std::ranges::find(ports, *port) != ports.end()) {
    co_return std::unexpected(SetupError{fmt::format("{}: {}", url_.host, attempts_), last_.number});
  }
  Opened opened = co_await OpenAt(*port, true);
  if (opened) co_return MountService{*std::move(opened), url_};
  co_return std::unexpected(SetupError{fmt::format("{}: {} (as rpcbind says)", url_.host, attempts_), last_.number});
}

Task<SetupResult<MountService>> Search::Run(const Url& asked) {
  if (!asked.mount_port) co_return co_await TryAll(asked);
  Opened opened = co_await OpenAt(*asked.mount_port, false);
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
  Search search(loop, workers, url, cancellation);
  auto found = co_await search.Run(url);
  if (found && !url.mount_port) log::info("{}: MOUNT is at port {}", found->url.host, found->url.port);
  co_return found;
}

}  // namespace penstock::client
