#include "client/nfs4/sess01/link.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/pauses.h"
#include "client/error.h"
#include "client/nfs4/session.h"
#include "client/retries.h"
#include "client/set_up.h"
#include "protocol/nfs4.h"

namespace penstock::client::v4::sess01 {

using nfs4::ChannelType;
using nfs4::ConnectionMode;
using nfs4::nfsstat4;

namespace {

// §2.2.2 leaves the smallest sizes open. No client can work with less.
constexpr uint32_t kSmallestMessage = 512;
// The largest receive of an RDMA connection that the client provides.
constexpr uint32_t kLargestReceive = 64 << 10;
// The RDMA Reads that the server may have under way at once.
constexpr uint32_t kReads = 16;
constexpr int kMostTries = 5;
// So often in a row the server may refuse the connections of a link. Then the client believes that it always will.
constexpr int kMostRefusals = 5;

}  // namespace

Result<Bound, std::string> BoundOf(const nfs4::SESSIONBIND4res& result, const nfs4::SESSIONBIND4args& asked) {
  Bound bound;
  bound.status = result.status();
  if (!result.is_resok4()) return bound;
  const nfs4::SESSIONBIND4resok& given = result.resok4();
  bound.channel = given.channelid;
  // Zero means that nothing limits the size (§2.2.4). The client keeps the size that it has asked for.
  const auto size = [](uint32_t granted, uint32_t wanted) { return granted == 0 ? wanted : std::min(granted, wanted); };
  bound.limits = {.max_request = size(given.maxrequestsize, asked.maxrequestsize),
                  .max_response = size(given.maxresponsesize, asked.maxresponsesize),
                  .credits = std::min(given.maxrequests, asked.maxrequests),
                  .padding = given.headerpadsize,
                  .reads = std::min(given.maxrdmareads, asked.maxrdmareads)};
  if (!given.transportattrs.empty()) {
    const xdr::Message encoded = xdr::Message::Whole(Slice::Borrowed(given.transportattrs.bytes()));
    const auto attributes = xdr::DecodeWhole<nfs4::transportattrs4>(encoded);
    if (!attributes) return std::unexpected("the server's transport attributes are malformed");
    for (const nfs4::transportattr4& each : *attributes) {
      const ConstBytes value = each.value.bytes();
      if (each.type == nfs4::TRANSPORTATTR4_MODE && value.size() == 4) {
        const auto mode = LoadBig<uint32_t>(value.data());
        if (mode > static_cast<uint32_t>(ConnectionMode::RDMA))
          return std::unexpected("the server grants no known mode");
        bound.mode = static_cast<ConnectionMode>(mode);
      } else if (each.type == nfs4::TRANSPORTATTR4_INSTANCE && value.size() == sizeof(Instance)) {
        std::ranges::copy(value, bound.instance.emplace().begin());
      }
    }
  }
  if (bound.limits.credits == 0) return std::unexpected("the server grants a channel no requests");
  if (std::min(bound.limits.max_request, bound.limits.max_response) < kSmallestMessage) {
    return std::unexpected(fmt::format("the server grants messages of only {} octets",
                                       std::min(bound.limits.max_request, bound.limits.max_response)));
  }
  if (bound.limits.padding > asked.headerpadsize)
    return std::unexpected("the server wants padding that nobody asked for");
  if (bound.mode == ConnectionMode::RDMA && asked.mode != ConnectionMode::RDMA) {
    return std::unexpected("the server grants the RDMA mode, which the client has not asked for");
  }
  return bound;
}

// ---- parts ----

class Link::Direct final : public rpc::Channel {
 public:
  explicit Direct(Link& link) : link_(link) {}
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
    return Connection::Call(link_.connection_, std::move(call), std::move(shape));
  }

 private:
  Link& link_;
};

class Link::Shared final : public rpc::Channel {
 public:
  explicit Shared(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~Shared() override { connection_->Close(); }
  void Close() override { connection_->Abort(); }
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
    return Connection::Call(connection_, std::move(call), std::move(shape));
  }

 private:
  const std::shared_ptr<Connection> connection_;
};

// The XIDs of the two clients of one connection never meet: they start half of the numbers apart.
Link::Link(Surroundings surroundings, Roles roles, rpc::Xid first, std::optional<Transport> transport)
    : surroundings_(std::move(surroundings)),
      roles_(roles),
      callbacks_(*this, surroundings_.callbacks, surroundings_.state),
      own_channel_(transport ? nullptr
                             : std::make_unique<ReconnectingChannel>(
                                   surroundings_.timers, [this](Duration time_limit) { return Open(time_limit); },
                                   surroundings_.retry, surroundings_.ending)),
      own_client_(transport ? nullptr
                            : std::make_unique<rpc::Client>(*own_channel_, surroundings_.buffers, first,
                                                            surroundings_.credential)),
      channel_(transport ? transport->channel : *own_channel_),
      client_(transport ? transport->client : *own_client_),
      direct_(std::make_unique<Direct>(*this)),
      binder_(*direct_, surroundings_.buffers, rpc::Xid(first.value() ^ 0x8000'0000), surroundings_.credential),
      ending_(surroundings_.ending, [this] {
        if (const std::shared_ptr<Connection> connection = connection_) connection->Abort();
      }) {
  if (roles_.back) dispatcher_.Add(callbacks_);
}

Link::~Link() {
  present_.reset();
  if (connection_) connection_->Close();
}

bool Link::is_bound(ChannelType type, uint64_t generation) const {
  const Binding& binding = type == ChannelType::BACK ? back_ : operations_;
  return connected() && binding.is_live && binding.generation == generation;
}

Task<void> Link::AwaitBinding() {
  while (binding_back_) co_await changed_;
}

std::optional<uint32_t> Link::back_channel() const {
  return back_.is_live ? std::optional(back_.channel) : std::nullopt;
}

Task<void> Link::ReturnCredits(uint32_t target) {
  if (target >= operations_.limits.credits) co_return;
  operations_.limits.credits = target;
  const std::shared_ptr<Connection> connection = connection_;
  if (!connected() || !operations_.is_live) co_return;
  connection->set_credits(target);
  if (!is_rdma_) co_return;
  // The reply to a call that was under way meanwhile may have taken a returned credit into account, and the client
  // counts that credit as returned once more. The reply to a further call tells how many are really left.
  for (int i = 0; i < kMostTries && connection->transport(); ++i) {
    const bool returned = co_await surroundings_.connector.ReturnCredits(*connection->transport(), target);
    if (!returned || connection != connection_) co_return;
    const auto reply = co_await binder_.Call<nfs4::NFSPROC4_NULL>({});
    if (!reply || connection != connection_ || !connection->transport()) co_return;
    if (surroundings_.connector.Credits(*connection->transport()) <= target) co_return;
  }
}

// ---- connections ----

Connector::Ends Link::Ends() {
  present_ = std::make_shared<int>();
  return {.handler = roles_.back ? &dispatcher_ : nullptr, .on_lost = [this, token = std::weak_ptr<int>(present_)] {
            if (const auto present = token.lock(); present && present == present_) HandleLost();
          }};
}

void Link::HandleLost() {
  if (connection_) connection_->End();
  // While the link opens the connection, Open() reports the loss.
  if (!opening_) surroundings_.owner.HandleConnectionLost(*this);
}

Task<Connector::Opened> Link::Open(Duration time_limit) {
  opening_ = true;
  operations_.is_live = back_.is_live = false;
  if (connection_) connection_->Close();
  connection_.reset();
  Connector::Ends ends = Ends();
  Connector::Opened transport = co_await surroundings_.connector.Open(time_limit, std::move(ends));
  if (!transport) {
    opening_ = false;
    co_return transport;
  }
  is_rdma_ = surroundings_.connector.starts_in_rdma_mode();
  opened_at_ = surroundings_.timers.Now();
  connection_ = std::make_shared<Connection>(*std::move(transport), lost_calls_);
  Binds bound = co_await BindAll();
  Judge(bound);
  // This code may run inside of the connection, which must not be used or destroyed in the same turn.
  co_await Sleep(surroundings_.timers, Duration::zero());
  opening_ = false;
  if (!bound) {
    present_.reset();
    connection_->Close();
    if (is_refused_) channel_.HandleRefusal();
    co_return std::unexpected(std::move(bound).error().why);
  }
  co_return std::make_unique<Shared>(connection_);
}

Task<SetupResult<void>> Link::EnsureConnected() {
  auto reply = co_await client_.Call<nfs4::NFSPROC4_NULL>({});
  if (reply) co_return SetupResult<void>();
  SetupError lost{rpc::Describe(reply.error()), ErrnoOf(reply.error())};
  co_return std::unexpected(TroubleOf(reply.error()).value_or(std::move(lost)));
}

std::optional<SetupError> Link::TroubleOf(const rpc::Error& error) const {
  const bool is_refused = error.kind == rpc::Error::Kind::kTransport && error.transport == rpc::CallError::kRefused;
  return is_refused && is_refused_ ? std::optional(channel_.trouble()) : std::nullopt;
}

Task<SetupResult<void>> Link::EnsureBound(ChannelType type) {
  SetupError why{"the server closes connections before they are bound", ECONNRESET};
  for (int tries = 0; tries < kMostTries; ++tries) {
    if (opening_ || !connected()) {
      SetupResult<void> reached = co_await EnsureConnected();
      if (!reached) co_return reached;
      // The reply has come through the connection.
      co_await Sleep(surroundings_.timers, Duration::zero());
    }
    if (is_bound(type, surroundings_.owner.lease().generation())) co_return SetupResult<void>();
    if (opening_ || !connected()) continue;
    Binds bound = co_await Bind(type);
    Judge(bound);
    co_await Sleep(surroundings_.timers, Duration::zero());
    if (bound) co_return SetupResult<void>();
    why = std::move(bound).error().why;
    if (is_refused_ || connected()) break;
  }
  co_return std::unexpected(std::move(why));
}

void Link::CloseIfBoundBefore(uint64_t generation) {
  const auto is_earlier = [&](const Binding& binding) { return binding.is_live && binding.generation <= generation; };
  if (!opening_ && connection_ && (is_earlier(operations_) || is_earlier(back_))) connection_->Close();
}

// ---- SESSION_BIND ----

bool Link::MayBind(ChannelType type) const {
  using enum BoundLease::Step;
  const BoundLease::Step step = surroundings_.owner.lease().next();
  // The first back channel precedes the first operations channel (§2.6).
  return type == ChannelType::BACK ? roles_.back && step >= kBindBack : roles_.operations && step >= kBind;
}

Task<Link::Binds> Link::BindAll() {
  for (const ChannelType type : {ChannelType::BACK, ChannelType::OPERATION}) {
    if (!MayBind(type)) continue;
    Binds bound = co_await Bind(type);
    if (!bound) co_return bound;
  }
  co_return Binds();
}

void Link::Judge(Binds& bound) {
  using enum BindFailure::Kind;
  if (bound) refusals_ = 0;
  if (!bound && bound.error().kind == kRefused && ++refusals_ >= kMostRefusals) bound.error().kind = kFinal;
  is_refused_ = !bound && bound.error().kind == kFinal;
}

BindFailure Link::FailureOf(nfsstat4 status, ChannelType type, uint64_t generation) {
  using enum BindFailure::Kind;
  // The server may still count a connection whose loss it has not noticed, or its disk may fail for a while.
  const bool may_pass = status == nfsstat4::NFS4ERR_SESS01_BADBIND || status == nfsstat4::NFS4ERR_SERVERFAULT;
  const bool was_bound = BindingOf(type).generation == generation;
  const auto refusal = static_cast<Status>(status);
  return {.why = {Describe(refusal), ErrnoOf(refusal)}, .kind = !may_pass ? kFinal : was_bound ? kLost : kRefused};
}

nfs4::SESSIONBIND4args Link::Arguments(ChannelType type) const {
  const bool is_back = type == ChannelType::BACK;
  const Connector& connector = surroundings_.connector;
  const auto size = [&](uint32_t most) {
    return is_back ? kMaxBackMessage : std::min(surroundings_.max_message, most);
  };
  // Over one connection, the operations channel decides on the mode, unless the connection is in RDMA mode already.
  const ConnectionMode mode = is_rdma_                       ? ConnectionMode::RDMA
                              : is_back && roles_.operations ? ConnectionMode::STREAM
                                                             : connector.mode(type);
  const bool is_rdma = mode == ConnectionMode::RDMA;
  return {.sessionid = surroundings_.owner.lease().session(),
          .channel = type,
          .mode = mode,
          .maxrequestsize = size(connector.max_call()),
          .maxresponsesize = size(connector.max_message()),
          .headerpadsize = is_rdma && !is_back ? surroundings_.padding : 0,
          .maxrequests = is_back ? kBackSlots : std::min(surroundings_.requests, connector.max_calls()),
          .maxrdmareads = is_rdma && !is_back ? kReads : 0,
          .transportattrs = {}};
}

Task<Link::Binds> Link::Bind(ChannelType type) {
  LinkOwner& owner = surroundings_.owner;
  const uint64_t generation = owner.lease().generation();
  Retries retries(surroundings_.timers.Now() + surroundings_.bind_limit);
  for (;;) {
    binding_back_ = type == ChannelType::BACK;
    nfs4::SESSIONBIND4args arguments = Arguments(type);
    const ConnectionMode wanted = arguments.mode;
    const bool wants_padding = arguments.headerpadsize > 0;
    auto bound = co_await owner.SendBind(binder_, arguments);
    if (bound && bound->status == nfsstat4::NFS4_OK) {
      BindingOf(type) = {.channel = bound->channel, .generation = generation, .limits = bound->limits, .is_live = true};
      owner.HandleBound(type, *bound, generation);
    }
    if (std::exchange(binding_back_, false)) changed_.Notify();
    if (!bound) co_return std::unexpected(std::move(bound).error());
    switch (bound->status) {
      case nfsstat4::NFS4_OK:
        if (type == ChannelType::BACK) co_return Binds();
        if (wanted == ConnectionMode::RDMA && bound->mode == ConnectionMode::STREAM && !is_rdma_) {
          log::info("the connection of channel {} stays on TCP: the server does not step up to RDMA", bound->channel);
        } else if (wants_padding) {
          const uint32_t padding = bound->limits.padding;
          log::info(
              "the server grants channel {} {}", bound->channel,
              padding == 0 ? "no header padding" : fmt::format("header padding to multiples of {} octets", padding));
        }
        co_return co_await Apply(*bound);
      case nfsstat4::NFS4ERR_DELAY:
        if (surroundings_.timers.Now() >= retries.give_up) break;
        co_await Pause(surroundings_.timers, retries.NextDelay(), surroundings_.ending);
        continue;
      case nfsstat4::NFS4ERR_SESS01_BADSESSION:
        // Requests of the lost session go over this connection, which is not bound. The server refuses them
        // (NFS4ERR_SESS01_NOT_BOUND) and does not execute them. Whether it has executed a request over an earlier
        // connection is unknown (see LostCalls).
        owner.HandleUnknownSession(generation);
        co_return Binds();
      case nfsstat4::NFS4ERR_SESS01_BADBIND:
        if (type != ChannelType::BACK || back_.generation != generation) break;
        owner.HandleBackRefused(*this);
        co_return Binds();
      default:
        break;
    }
    co_return std::unexpected(FailureOf(bound->status, type, generation));
  }
}

Task<Link::Binds> Link::Apply(const Bound& bound) {
  using enum BindFailure::Kind;
  if (!surroundings_.owner.Accepts(bound)) {
    BindFailure smaller{{"the server offers smaller messages than before the connection was lost", EPROTO}, kLost};
    co_return std::unexpected(std::move(smaller));
  }
  connection_->set_credits(bound.limits.credits);
  if (bound.mode == ConnectionMode::RDMA && !is_rdma_) co_return co_await EnterRdmaMode(bound.limits);
  if (surroundings_.connector.starts_in_rdma_mode() && connection_->transport()) {
    surroundings_.connector.SetLimits(*connection_->transport(), bound.limits);
  }
  co_return Binds();
}

// §2.3.2
Task<Link::Binds> Link::EnterRdmaMode(const rpc::ConnectionLimits& limits) {
  using enum BindFailure::Kind;
  if (limits.max_response > kLargestReceive) {
    BindFailure large{{fmt::format("the server wants to send {} octets at once by RDMA", limits.max_response), EPROTO},
                      kFinal};
    co_return std::unexpected(std::move(large));
  }
  // This code may run inside of the connection.
  co_await Sleep(surroundings_.timers, Duration::zero());
  std::unique_ptr<rpc::Channel> tcp = connection_->TakeTransport();
  if (!tcp || connection_->ended()) {
    BindFailure lost{{"the connection was lost", ECONNRESET}, kLost};
    co_return std::unexpected(std::move(lost));
  }
  Connector::Ends ends = Ends();
  auto stepped = co_await surroundings_.connector.StepUp(std::move(tcp), limits, std::move(ends));
  if (!stepped) {
    connection_->Close();
    BindFailure refused{{fmt::format("cannot step up to RDMA: {}", stepped.error().message), stepped.error().number},
                        kRefused};
    co_return std::unexpected(std::move(refused));
  }
  connection_->set_transport(*std::move(stepped));
  is_rdma_ = true;
  log::info("stepped up: the connection of channel {} uses RDMA now, with {} credits and messages of {} and {} octets",
            operations_.channel, limits.credits, limits.max_request, limits.max_response);
  co_return Binds();
}

}  // namespace penstock::client::v4::sess01
