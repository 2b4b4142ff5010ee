// Calls to clients without sessions, which listen at an address of their own (RFC 7530 §16.33, §15.1).
#include <algorithm>

#include "base/log.h"
#include "nfs/v4/callback/callback_sender.h"
#include "rpc/tcp/channel.h"

namespace penstock::nfs::v4 {

namespace {

// A channel that the owner of all of them can close.
class ClosableChannel final : public rpc::Channel {
 public:
  ClosableChannel(std::unique_ptr<rpc::tcp::Channel> channel, Cancellation* stopping)
      : channel_(std::move(channel)), stopping_(stopping, [this] { channel_->Close(); }) {}
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
    return channel_->Call(std::move(call), std::move(shape));
  }

 private:
  const std::unique_ptr<rpc::tcp::Channel> channel_;
  const Cancellation::Entry stopping_;
};

rpc::ClientCredential CredentialFor(const CallbackAddress& address, const CallbackOperation* operation) {
  if (address.security) return rpc::ClientCredential(address.security->service);
  if (!operation) return {};
  // Clients expect AUTH_SYS in callbacks. The server calls as root.
  return rpc::ClientCredential(rpc::SystemIdentity{.machine = "penstock", .uid = 0, .gid = 0, .groups = {}});
}

}  // namespace

Task<std::shared_ptr<rpc::Channel>> ConnectByTcp(Loop& loop, SocketAddress client, Duration call_limit,
                                                 Cancellation* stopping) {
  rpc::tcp::ChannelOptions options;
  options.max_record = 64 << 10;
  options.connect_limit = std::min<Duration>(std::chrono::seconds(5), call_limit);
  options.call_limit = call_limit;
  options.cancellation = stopping;
  auto connected = co_await rpc::tcp::Channel::Connect(loop, client, options);
  if (!connected || IsCancelled(stopping)) co_return nullptr;
  co_return std::make_shared<ClosableChannel>(*std::move(connected), stopping);
}

void CallbackSender::Probe(ClientId client) { Run(ProbeByAddress(client)); }

// If the client gives another address meanwhile, probes that one as well.
Task<void> CallbackSender::ProbeByAddress(ClientId client) {
  if (probed_clients_.size() >= options_.max_probes) {
    log::debug("too many probes of clients are under way: {:x} gets none", client.value());
    co_return;
  }
  if (!probed_clients_.insert(client).second) co_return;
  std::optional<CallbackAddress> probed;
  while (!stopping_) {
    const auto address = state_.Run([&](StateTables& state) -> std::optional<CallbackAddress> {
      const Client* known = state.clients.Find(client);
      return known ? std::optional(known->callback) : std::nullopt;
    });
    if (!address || address == probed) break;
    co_await CallByAddress(client, *address, nullptr);
    probed = address;
  }
  probed_clients_.erase(client);
}

// Sends CB_NULL if `operation` is null. The result of the call becomes the state of the client's path, unless the
// client has another address by then.
Task<CallbackSender::Answer> CallbackSender::CallByAddress(ClientId client, CallbackAddress address,
                                                           const CallbackOperation* operation) {
  const rpc::ClientCredential credential = CredentialFor(address, operation);
  const CallbackCall call{.program = address.program,
                          .credential = credential.auth(),
                          .minor_version = MinorVersion(0),
                          .identifier = address.identifier,
                          .operation = operation};
  Answer answer = std::unexpected(Failure::kNoPath);
  if (const auto channel = co_await ChannelTo(client, address)) {
    const rpc::Xid xid = xids_.Next();
    const auto reply = co_await channel->Call(EncodeCallback(buffers_, xid, call), ShapeOfCallbackReply());
    if (reply) {
      const auto decoded = DecodeCallbackReply(*reply, xid, call);
      answer = decoded ? Answer(*decoded) : std::unexpected(Failure::kRefused);
    } else if (const auto path = addresses_.find(client); path != addresses_.end() && path->second.channel == channel &&
                                                          reply.error() != rpc::CallError::kNoContext) {
      addresses_.erase(path);
    }
  }
  state_.Run([&](StateTables& state) {
    state.clients.SetPath(client, address, answer ? PathState::kWorks : PathState::kDown);
  });
  co_return answer;
}

// Returns the connection to the client, or makes one. Returns null if that fails.
Task<std::shared_ptr<rpc::Channel>> CallbackSender::ChannelTo(ClientId client, const CallbackAddress& address) {
  if (const auto path = addresses_.find(client); path != addresses_.end()) {
    if (path->second.address == address) co_return path->second.channel;
    addresses_.erase(path);
  }
  if (!address.endpoint || stopping_) co_return nullptr;
  const auto channel = co_await connect_(address);
  if (!channel || stopping_) co_return nullptr;
  state_.Run([&](StateTables& state) {
    std::erase_if(addresses_, [&](const auto& path) { return !state.clients.Has(path.first); });
  });
  addresses_.insert_or_assign(client, AddressPath{address, channel});
  co_return channel;
}

}  // namespace penstock::nfs::v4
