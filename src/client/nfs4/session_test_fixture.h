// The fixture for tests of a session: a session with a fake server.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/task.h"
#include "base/test_loop.h"
#include "client/nfs4/fake_session_server.h"
#include "client/nfs4/session.h"
#include "rpc/client.h"

namespace penstock::client::v4 {

using namespace std::chrono_literals;

class SessionTest : public testing::Test {
 protected:
  static CallerOptions Usual() { return {.owner = "client", .give_up_after = kTestPatience / 2}; }

  explicit SessionTest(CallerOptions caller = Usual()) : options(std::move(caller)) {}
  ~SessionTest() override {
    Run(session.Close());
    Turn(1ms);
  }

  void Turn(Duration time) { TurnFor(loop, time); }
  void TurnUntil(const std::function<bool()>& done) { ASSERT_TRUE(penstock::TurnUntil(loop, done)); }
  void Run(Task<void> task) {
    bool done = false;
    Spawn([](Task<void> inner, bool& flag) -> Task<void> {
      co_await std::move(inner);
      flag = true;
    }(std::move(task), done));
    TurnUntil([&] { return done; });
  }
  void Establish() {
    std::optional<Result<void>> result;
    Spawn([](Session& s, std::optional<Result<void>>& out) -> Task<void> { out = co_await s.Establish("server"); }(
                                                               session, result));
    TurnUntil([&] { return result.has_value(); });
    ASSERT_TRUE(*result) << result->error().message;
  }
  using Outcome = std::optional<Result<void>>;
  template <class Operation>
  void Start(Operation operation, Outcome& out) {
    Spawn([](Session& s, Operation one, Outcome& result) -> Task<void> {
      auto reply = co_await s.Call([&one] { return std::tuple(one); }, "name");
      if (reply) {
        result = Result<void>();
      } else {
        result = std::unexpected(reply.error());
      }
    }(session, operation, out));
  }
  void StartRemove(Outcome& out) { Start(nfs4::REMOVE4args{"name"}, out); }
  // Starts `count` REMOVEs at once.
  void StartRemoves(size_t count) {
    outcomes = std::vector<Outcome>(count);
    for (Outcome& outcome : outcomes) StartRemove(outcome);
  }
  void ExpectAllToSucceed() {
    TurnUntil([&] { return std::ranges::all_of(outcomes, [](const Outcome& o) { return o.has_value(); }); });
    for (const Outcome& outcome : outcomes) EXPECT_TRUE(*outcome);
  }
  template <class Operation>
  Result<void> Do(Operation operation) {
    Outcome out;
    Start(operation, out);
    TurnUntil([&] { return out.has_value(); });
    return *std::move(out);
  }
  Result<void> Remove() { return Do(nfs4::REMOVE4args{"name"}); }
  Result<void> Lookup() { return Do(nfs4::LOOKUP4args{nfs4::component4("name")}); }

  Loop loop;
  FakeServer server{loop};
  rpc::Client client{server, loop.buffers(), rpc::Xid(1)};
  CallerOptions options;
  Session session{loop, client, options};
  std::vector<Outcome> outcomes;  // of StartRemoves()
};

}  // namespace penstock::client::v4
