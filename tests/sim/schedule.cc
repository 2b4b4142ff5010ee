#include "schedule.h"

#include <fmt/core.h>

#include <array>

#include "rdma/sim/random.h"

namespace penstock::simulation {
namespace {

using rdma::sim::Random;
using std::chrono::microseconds;
using std::chrono::milliseconds;

template <class T, size_t N>
T OneOf(Random& random, const std::array<T, N>& values) {
  return values[random.Below(N)];
}

// Draws small thresholds more often, because they make messages use chunks.
uint32_t DrawThreshold(Random& random) {
  return OneOf(random, std::array<uint32_t, 10>{1024, 1024, 1024, 2048, 2048, 4096, 4096, 8192, 16384, 65536});
}

rpcrdma::PrivateData DrawPrivateData(Random& random) {
  return {.remote_invalidation = random.Chance(0.6),
          .send_size = DrawThreshold(random),
          .receive_size = DrawThreshold(random)};
}

// Draws few credits with large receives, because buffers of 64 KiB slow the simulation down.
uint32_t DrawCredits(Random& random, const rpcrdma::PrivateData& data) {
  return static_cast<uint32_t>(random.Between(1, data.receive_size > 8192 ? 4 : 12));
}

ClientPlan DrawClient(Random& random) {
  ClientPlan plan;
  plan.options.private_data = DrawPrivateData(random);
  plan.options.ird = static_cast<uint16_t>(random.Between(1, 4));
  plan.options.requester.credits = DrawCredits(random, plan.options.private_data);
  plan.options.requester.min_chunk = OneOf(random, std::array<size_t, 5>{1, 100, 512, 4096, 16385});
  plan.probes = random.Chance(0.5);
  plan.workers = static_cast<unsigned>(random.Between(1, 4));
  plan.slots = static_cast<unsigned>(random.Between(1, 5));
  return plan;
}

}  // namespace

Schedule::Schedule(uint64_t seed, Family family) {
  // These numbers must differ from those that the World of the same seed draws.
  Random random(seed ^ 0x5eed'0f5c'4ed0'1e00);

  network.latency = microseconds(random.Between(1, 50));
  network.jitter = microseconds(random.Below(200));
  network.completion_delay = microseconds(random.Below(100));
  network.connect_timeout = milliseconds(20);
  network.early_completion = OneOf(random, std::array<double, 3>{0, 0.3, 1});
  network.max_segment = OneOf(random, std::array<uint32_t, 4>{700, 1460, 4096, 16384});
  network.limits.file_data = random.Chance(0.5);
  network.limits.max_transfer = OneOf(random, std::array<uint32_t, 3>{1 << 30, 1 << 30, 4096});

  server.private_data = DrawPrivateData(random);
  server.ord = static_cast<uint16_t>(random.Between(1, 4));
  server.responder.credits = DrawCredits(random, server.private_data);
  server.responder.max_call_octets = 128 << 10;
  server.responder.max_pulled_octets = OneOf(random, std::array<size_t, 2>{128 << 10, 32 << 20});

  const bool is_bound = family == Family::kSess01;
  sessions = is_bound || seed % 2 == 0;
  clients.push_back(DrawClient(random));
  if (random.Chance(0.3)) clients.push_back(DrawClient(random));

  calls = static_cast<unsigned>(random.Between(15, 35));
  if (sessions) {
    calls = calls * 2 / 3;  // version 4.1 has larger calls
    persistent = random.Chance(0.6);
    // Lockers need a second client: conflicts between clients are the interesting case.
    const bool locks = random.Chance(0.25);
    if (locks && clients.size() == 1) clients.push_back(DrawClient(random));
    for (ClientPlan& client : clients) client.lockers = locks ? (random.Chance(0.3) ? 2 : 1) : 0;
  }
  max_payload = OneOf(random, std::array<size_t, 5>{300, 5000, 5000, 9000, 40'000});
  max_service = random.Chance(0.7) ? microseconds(random.Below(2000)) : Duration::zero();

  // The time of a file operation may exceed the life of a connection, and the time that a new connection takes.
  if (random.Chance(0.4)) max_file_time = microseconds(random.Below(random.Chance(0.3) ? 60'000 : 2000));

  disk_fails = random.Chance(0.3) ? 0.1 : 0;

  if (is_bound) DrawBound(random);
  if (random.Chance(0.25)) return;  // a run without other faults
  has_faults = true;
  lose = OneOf(random, std::array<double, 4>{0, 0.002, 0.01, 0.03});
  refuse_after = random.Chance(0.3) ? random.Between(2, 20) : 0;
  loses_all = random.Chance(0.5);
  hangs = random.Chance(0.25);
  refuses_connections = random.Chance(0.5);
  changes_credits = random.Chance(0.6);
  meddlings = static_cast<unsigned>(random.Between(5, 40));
  if (!sessions) return;
  restarts = random.Chance(0.5) ? static_cast<unsigned>(random.Between(1, 3)) : 0;
  // Silence matters most to lockers: other clients may take their locks once the lease has expired.
  silences = random.Chance(clients[0].lockers + clients[0].sharers > 0 ? 0.25 : 0.01);
  if (is_bound) DrawBoundFaults(random);
}

void Schedule::DrawBound(Random& random) {
  using client::BackChannelPlace;
  using client::Protocol;
  BoundPlan& plan = bound.emplace();
  plan.one_receive_first = random.Chance(0.5);
  plan.steps_up = random.Chance(0.8);
  server.padding = OneOf(random, std::array<uint32_t, 3>{0, 0, 256});
  server.max_agreed_size = std::max({16u << 10, server.private_data.send_size, server.private_data.receive_size});
  server.responder.one_receive_first = plan.one_receive_first;
  if (plan.one_receive_first) server.ird = 0;
  const bool shares = random.Chance(0.5);
  plan.delegations = shares || random.Chance(0.3);
  if (shares && clients.size() == 1) clients.push_back(DrawClient(random));
  for (ClientPlan& client : clients) {
    client.protocol = OneOf(random, std::array{Protocol::kTcp, Protocol::kRdma, Protocol::kStepUp, Protocol::kStepUp});
    client.session = {
        .channels = static_cast<uint32_t>(random.Between(1, 4)),
        .back = OneOf(random, std::array{BackChannelPlace::kOwn, BackChannelPlace::kShared, BackChannelPlace::kOff}),
        .persist = random.Chance(0.75),
        .padding = OneOf(random, std::array<uint32_t, 3>{0, 64, 1024}),
        .chain = random.Chance(0.8)};
    // The smallest sizes make the client split COMPOUNDs into chains.
    client.max_message = client.protocol == Protocol::kRdma
                             ? OneOf(random, std::array<uint32_t, 3>{2048, 8192, 8192})
                             : OneOf(random, std::array<uint32_t, 4>{2048, 2048, 2048, 80 << 10});
    client.workers = static_cast<unsigned>(random.Between(1, 4));
    // A LOCK that is executed twice has another result the second time.
    if (!client.session.persist) client.lockers = 0;
    client.sharers = shares ? 1 : 0;
  }
  if (random.Chance(0.4)) plan.kept_octets = OneOf(random, std::array<size_t, 3>{64, 256, 1024});
}

void Schedule::DrawBoundFaults(Random& random) {
  if (restarts > 0 && random.Chance(0.6)) {
    persistent = true;
    bound->dies = OneOf(random, std::array<double, 3>{0.02, 0.1, 0.3});
  }
  if (random.Chance(0.5)) bound->lose_set_up = random.Chance(0.5) ? 0.1 : 0.4;
}

std::vector<fs::faulty::Fault> Schedule::FileFaults() const {
  using fs::Error;
  using fs::faulty::Effect;
  using fs::faulty::Operation;
  std::vector<fs::faulty::Fault> faults;
  if (max_file_time > Duration::zero()) {
    for (const auto moment : {Effect::Moment::kBefore, Effect::Moment::kAfter}) {
      faults.push_back({.when = fs::faulty::AtRandom(0.3), .effect = fs::faulty::SlowUpTo(max_file_time, moment)});
    }
  }
  if (disk_fails == 0) return faults;
  // A process that is out of descriptors fails with kDelay, as POSIX's EMFILE does.
  const auto fail = [&](Operation operation, std::initializer_list<Error> errors) {
    for (const Error error : errors) {
      faults.push_back({.operation = operation,
                        .when = fs::faulty::AtRandom(disk_fails / static_cast<double>(errors.size())),
                        .effect = fs::faulty::FailWith(error)});
    }
  };
  for (const auto operation : {Operation::kRead, Operation::kReadLink, Operation::kReadDirectory, Operation::kRemove}) {
    fail(operation, {Error::kIo, Error::kDelay});
  }
  for (const auto operation : {Operation::kWrite, Operation::kCommit, Operation::kCreate, Operation::kMakeDirectory,
                               Operation::kMakeSymlink, Operation::kRename, Operation::kLink}) {
    fail(operation, {Error::kIo, Error::kNoSpace, Error::kQuota, Error::kDelay});
  }
  return faults;
}

unsigned Schedule::workers() const {
  unsigned workers = 0;
  for (const ClientPlan& client : clients) workers += client.workers;
  return workers;
}

std::string Schedule::ToString() const {
  std::string text =
      fmt::format("version {}, {} calls, payloads up to {}, segments of {}, server: {}/{} octets, {} credits, R={}",
                  bound      ? "4.1-sess01"
                  : sessions ? "4.1"
                             : "3",
                  calls, max_payload, network.max_segment, server.private_data.send_size,
                  server.private_data.receive_size, server.responder.credits, server.private_data.remote_invalidation);
  for (const ClientPlan& client : clients) {
    const rpcrdma::PrivateData& data = client.options.private_data;
    text +=
        fmt::format("; client: {} workers, {} lockers, {}/{} octets, {} credits, R={}, min_chunk {}{}", client.workers,
                    client.lockers, data.send_size, data.receive_size, client.options.requester.credits,
                    data.remote_invalidation, client.options.requester.min_chunk, client.probes ? ", probes" : "");
  }
  if (bound) {
    constexpr const char* kProtocols[] = {"tcp", "rdma", "stepup"};
    constexpr const char* kPlaces[] = {"own", "shared", "off"};
    text += fmt::format("; server: {} receive first, {}{}{}padding {}, dies {}, lose set-up {}",
                        bound->one_receive_first ? "one" : "all", bound->steps_up ? "steps up, " : "",
                        bound->delegations ? "delegations, " : "",
                        bound->kept_octets ? fmt::format("keeps {} octets, ", *bound->kept_octets) : "", server.padding,
                        bound->dies, bound->lose_set_up);
    for (const ClientPlan& client : clients) {
      text += fmt::format(
          "; client: {} of {} octets, {} channels, {} slots, back {}, persist {}, pad {}, chain {}, {} sharers",
          kProtocols[static_cast<size_t>(client.protocol)], client.max_message, client.session.channels, client.slots,
          kPlaces[static_cast<size_t>(client.session.back)], client.session.persist, client.session.padding,
          client.session.chain, client.sharers);
    }
  }
  return text + fmt::format("; faults: lose {} refuse {}{}{}{}{}{}{}{}{}", lose, refuse_after,
                            disk_fails > 0 ? ", disk fails" : "", loses_all ? ", loses all" : "",
                            hangs ? ", hangs" : "", refuses_connections ? ", refuses connections" : "",
                            changes_credits ? ", changes credits" : "",
                            restarts ? fmt::format(", {} restarts", restarts) : "", persistent ? ", persistent" : "",
                            silences ? ", silences" : "");
}

}  // namespace penstock::simulation
