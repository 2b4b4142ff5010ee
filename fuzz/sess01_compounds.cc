// Sends sequences of COMPOUNDs of the sessions of 2004 to an NFSv4 server over a file system in memory: three clients
// and six connections, which are bound, lost and bound again; requests with good and wrong numbers, in chains and
// alone; and retries over any connection. The network holds up requests and retries on the connections over which they
// were sent. Time passes, and the server restarts with the sessions that it has stored.
//
// Each COMPOUND must get a reply that decodes as the results of its operations, and the tables must be consistent after
// it. The clients retry only the last request of a streamid, and use a streamid again only after they have had the
// answer to its last request. Then no request that makes something may be executed twice: each copy of it gets the same
// reply, or an error of OPERATION_CONTROL.
//
// Input: a sequence of steps. Each begins with an octet for its kind, and takes further octets as it needs them.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nfs4_server.h"
#include "protocol/nfs4_sess01.h"
#include "sess01_connection.h"

namespace {

using namespace penstock;           // NOLINT: a program of its own
using namespace penstock::nfs4;     // NOLINT: the protocol's own names
using namespace penstock::nfs::v4;  // NOLINT
using fuzz::Connection;
using fuzz::Die;
using fuzz::Input;
using fuzz::Sent;

const Settings kSettings{
    .max_read = 4096, .max_write = 4096, .max_unconfirmed_clients = 3, .bound_sessions = true, .max_streams = 6};
constexpr size_t kConnections = 6;
constexpr std::array<std::string_view, 3> kOwners = {"one", "two", "three"};

class Server : fuzz::Nfs4Server {
 public:
  Server() : Nfs4Server(kSettings, nfs::SecurityFlavors{nfs::SecurityFlavor::kNone}) {
    Restart();
    states_.resize(1);
  }

  void Step(Input& input) {
    const uint8_t kind = input.Octet();
    if (kind < 16) {
      Create(input);
    } else if (kind < 48) {
      Bind(input);
    } else if (kind < 56) {
      connections_[input.Octet() % kConnections].reset();
    } else if (kind < 64) {
      Pass(input.Octet());
    } else if (kind < 88) {
      Retry(input);
    } else if (kind < 96) {
      Deliver(Over(input.Octet()));
    } else if (kind < 100) {
      Restart();
    } else {
      Request(input);
    }
    KeepLeases();
    CheckConsistency();
  }

 private:
  static constexpr size_t kMost = 16;

  struct Session {
    uint64_t id = 0;
    bool keeps = false;  // asked for exactly-once semantics
  };
  // All connections are gone.
  void Restart() {
    for (auto& connection : connections_) connection.reset();
    Start();
  }

  void Pass(uint8_t what) {
    clock_.now += what < 200 ? Duration(std::chrono::seconds(what / 16)) : settings_.lease + std::chrono::seconds(1);
  }

  Connection& Over(uint8_t which) {
    auto& connection = connections_[which % kConnections];
    if (!connection || !connection->connected()) {
      connection = std::make_unique<Connection>(buffers_, (which & 0x40) != 0);
    }
    return *connection;
  }

  // ---- sessions

  void Create(Input& input) {
    Connection& connection = Over(input.Octet());
    const uint8_t how = input.Octet();
    SESSIONCREATE4args arguments{.clientid = {}, .persist = how % 4 != 0, .totalrequests = how / 4u % 8};
    const size_t client = how / 32 % kOwners.size();
    arguments.clientid.id = AsBytes(kOwners[client]);
    arguments.clientid.verifier[0] = std::byte(input.Octet() % 4);
    Begin(1, 1);
    Add(OP_SESSION_CREATE, arguments);
    const COMPOUND4res results = Run(connection);
    if (results.resarray.empty()) return;
    const SESSIONCREATE4res& made = results.resarray[0].opsession_create();
    if (!made.is_resok4()) return;
    const uint64_t id = made.resok4().sessionid;
    const auto known = std::ranges::find(sessions_, id, &Session::id);
    if (known == sessions_.end()) {
      if (sessions_.size() == 4 * kMost) return;
      sessions_.push_back({.id = id, .keeps = arguments.persist});
    }
  }

  void Bind(Input& input) {
    Connection& connection = Over(input.Octet());
    if (sessions_.empty()) return;
    const uint8_t how = input.Octet();
    // The latest ones are the ones that live.
    const size_t session = sessions_.size() - 1 - how % std::min<size_t>(sessions_.size(), 4);
    const bool is_rdma = connection.peer.transport == rpc::TransportKind::kRdma;
    const uint8_t sizes = input.Octet();
    constexpr std::array<uint32_t, 6> kSizes = {0, 4096, 2048, 2047, 1 << 20, UINT32_MAX};
    const SESSIONBIND4args arguments{.sessionid = sessions_[session].id ^ (how == 255 ? 1 : 0),
                                     .channel = how / 4 % 4 == 0 ? BACK : OPERATION,
                                     .mode = is_rdma || how / 16 % 4 == 0 ? RDMA : STREAM,
                                     .maxrequestsize = kSizes[sizes % kSizes.size()],
                                     .maxresponsesize = kSizes[sizes / 6 % kSizes.size()],
                                     .headerpadsize = how,
                                     .maxrequests = sizes,
                                     .maxrdmareads = sizes,
                                     .transportattrs = {}};
    Begin(1, 2);
    Add(OP_SESSION_BIND, arguments);
    AddNumber(OP_PUTROOTFH);
    const COMPOUND4res results = Run(connection);
    if (results.resarray.empty()) return;
    const SESSIONBIND4res& bound = results.resarray[0].opsession_bind();
    if (!bound.is_resok4()) return;
    if (connection.session != SIZE_MAX && connection.session != session) Die("a connection with two sessions");
    connection.session = session;
    last_channel_ = bound.resok4().channelid;
    if (last_channel_ == 0) Die("channelid 0");
    if (arguments.channel == OPERATION) connection.channel = last_channel_;
  }

  // ---- requests

  void Request(Input& input) {
    Connection& connection = Over(input.Octet());
    const uint8_t network = input.Octet();
    connection.room = network % 16 != 15 ? SIZE_MAX : 600;
    const uint8_t how = input.Octet();
    const uint32_t count = how % 5;
    const uint32_t channel = how < 200 ? connection.channel : last_channel_ + 2 - how % 8;
    const uint8_t numbers = input.Octet();
    const uint32_t stream = numbers % 9;
    const size_t session = connection.session;
    const bool keeps = session != SIZE_MAX && sessions_[session].keeps;
    const bool is_proper = keeps && channel == connection.channel && stream < settings_.max_streams;
    // The client waits for the answer to the last request of the streamid.
    if (const auto last = Last(session, stream); is_proper && last && !last->over) return Repeat(connection, last);
    Begin(1, 2 + 2 * count);
    Add(OP_OPERATION_CONTROL,
        OPERATIONCONTROL4args{
            .channelid = channel, .streamid = stream, .chainflags = static_cast<ChainFlags>(numbers / 16 % 4)});
    AddNumber(numbers < 224 ? OP_PUTROOTFH : OP_GETFH);  // GETFH needs the filehandle of a chain
    for (uint32_t i = 0; i < count; ++i) AddOne(input);
    // From now on the client does not retry the request before.
    std::erase_if(sent_, [&](const auto& each) { return each->session == session && each->stream == stream; });
    auto sent = std::make_shared<Sent>(Sent{
        .session = session, .stream = stream, .call = encoder_->Finish(), .over_first = connection.peer.connection});
    if (is_proper) sent_.push_back(sent);
    if (is_proper && network >= 224) {
      connection.held.push_back(std::move(sent));
    } else {
      Repeat(connection, sent);
    }
  }

  void Retry(Input& input) {
    Connection& connection = Over(input.Octet());
    const uint8_t which = input.Octet();
    if (sent_.empty()) return;
    const auto sent = sent_[which % sent_.size()];
    // A client that has had the answer sends no retry that could arrive late.
    if (sent->over) return Repeat(connection, sent);
    sent->retried |= connection.peer.connection != sent->over_first;
    if (which >= 192 && connection.held.size() < kMost) {
      connection.held.push_back(sent);
    } else {
      Repeat(connection, sent);
    }
  }

  std::shared_ptr<Sent> Last(size_t session, uint32_t stream) const {
    const auto found = std::ranges::find_if(
        sent_, [&](const auto& each) { return each->session == session && each->stream == stream; });
    return found == sent_.end() ? nullptr : *found;
  }

  // Sends a copy of a request, behind what the network still holds.
  void Repeat(Connection& connection, const std::shared_ptr<Sent>& sent) {
    Deliver(connection);
    Arrive(connection, *sent);
  }
  void Deliver(Connection& connection) {
    while (!connection.held.empty()) {
      const auto sent = std::move(connection.held.front());
      connection.held.pop_front();
      Arrive(connection, *sent);
    }
  }

  // A copy of a request arrives. If the connection is lost meanwhile, nothing does.
  void Arrive(Connection& connection, Sent& sent) {
    if (!connection.connected()) return;
    const COMPOUND4res results = Send(connection, sent.call);
    for (const nfs_resop4& result : results.resarray) Remember(result);
    if (IsEnded(results)) Forget(connection.session);
    // The numbers of another session mean something else.
    if (connection.session != sent.session) return;
    if (!sent.retried || connection.peer.connection != sent.over_first) sent.over = true;
    if (!IsOpened(results)) return;
    const auto octets = reply_.stream.bytes();
    if (sent.reply && !std::ranges::equal(octets, *sent.reply)) Die("a change was executed twice");
    const bool made = std::ranges::any_of(results.resarray, [](const nfs_resop4& result) {
      return result.resop() == OP_CREATE && result.opcreate().status() == NFS4_OK;
    });
    if (made) sent.reply.emplace(octets.begin(), octets.end());
  }

  static bool IsOpened(const COMPOUND4res& results) {
    return !results.resarray.empty() && results.resarray[0].resop() == OP_OPERATION_CONTROL &&
           results.resarray[0].opoperation_control().status() == NFS4_OK;
  }
  static bool IsEnded(const COMPOUND4res& results) {
    return !results.resarray.empty() && results.resarray.back().resop() == OP_SESSION_DESTROY &&
           results.status == NFS4_OK;
  }
  void Forget(size_t session) {
    std::erase_if(sent_, [&](const auto& each) { return each->session == session; });
  }

  void AddOne(Input& input) {
    const uint8_t kind = input.Octet();
    const stateid4& state = states_[input.Octet() % states_.size()];
    AddNumber(OP_PUTROOTFH);
    if (kind < 80) {
      const std::string name = "made" + std::to_string(++made_);
      Add(OP_CREATE, CREATE4args{.objtype = createtype4(NF4DIR), .objname = name, .createattrs = {}});
    } else if (kind < 120) {
      AddOpen(input);
    } else if (kind < 136) {
      Add(OP_CLOSE, CLOSE4args{.seqid = kind, .open_stateid = state});
    } else if (kind < 152) {
      Add(OP_READ, READ4args{.stateid = state, .offset = 0, .count = kind});
    } else if (kind < 156) {
      AddNumber(OP_SESSION_DESTROY);
    } else if (kind < 164) {
      AddNumber(OP_SAVEFH);
    } else if (kind < 172) {
      AddNumber(OP_RESTOREFH);
    } else {
      constexpr std::array<uint32_t, 8> kNumbers = {200401, 200402, 200403, 200404, 200405, 200406, 53, 9};
      encoder_->U32(kind < 200 ? kNumbers[kind % kNumbers.size()] : kind % 80);
      encoder_->Fixed(input.Take(size_t{4} * (input.Octet() % 16)));
    }
  }

  void AddOpen(Input& input) {
    static constexpr std::array<std::string_view, 3> kNames = {"a", "b", "c"};
    const uint8_t how = input.Octet();
    OPEN4args arguments{};
    arguments.share_access = 1 + how % 3;
    arguments.owner = {.clientid = 0, .owner = {AsBytes(kNames[how / 3 % 3])}};
    arguments.openhow = openflag4(OPEN4_CREATE, createhow4(UNCHECKED4, fattr4{}));
    arguments.claim = how < 224 ? open_claim4(CLAIM_NULL, component4(kNames[how / 9 % 3]))
                                : open_claim4(CLAIM_PREVIOUS, OPEN_DELEGATE_NONE);
    Add(OP_OPEN, arguments);
  }

  // Sends what is encoded, behind what the network still holds.
  COMPOUND4res Run(Connection& connection) {
    const rpc::Message call = encoder_->Finish();
    Deliver(connection);
    return Send(connection, call);
  }

  // Without results if the connection is lost before the reply.
  COMPOUND4res Send(Connection& connection, const rpc::Message& call) {
    return Nfs4Server::Send(call, connection.peer).value_or(COMPOUND4res{});
  }

  void Remember(const nfs_resop4& result) {
    if (result.resop() != OP_OPEN || result.opopen().status() != NFS4_OK || states_.size() == kMost) return;
    states_.push_back(result.opopen().resok4().stateid);
  }

  std::array<std::unique_ptr<Connection>, kConnections> connections_;
  uint32_t made_ = 0;
  uint32_t last_channel_ = 0;
  std::vector<Session> sessions_;
  std::vector<std::shared_ptr<Sent>> sent_;  // the last request of each streamid
  std::vector<stateid4> states_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Server server;
  while (!input.empty()) server.Step(input);
  return 0;
}
