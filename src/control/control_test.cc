#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <thread>
#include <vector>

#include "control/client.h"
#include "control/server.h"
#include "control/socket.h"

namespace penstock::control {
namespace {

SetupResult<Json> Echo(const std::string& command, const Json& arguments) {
  if (command == "fail") return std::unexpected(SetupError{"as asked"});
  return Json{{"command", command}, {"arguments", arguments}};
}

class ControlTest : public testing::Test {
 protected:
  ControlTest() {
    std::string name = testing::TempDir() + "/control.XXXXXX";
    EXPECT_TRUE(::mkdtemp(name.data()));
    folder_ = name;
    path_ = folder_ / "control";
  }
  ~ControlTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Server> Serve(Handler handler = &Echo) {
    auto server = Server::Open(path_, {});
    EXPECT_TRUE(server) << server.error().message;
    if (!server) return nullptr;
    (*server)->Start(std::move(handler));
    return *std::move(server);
  }
  // Sends octets over a connection of its own, and returns the first line of the answer.
  std::optional<std::string> Ask(std::string_view octets) {
    const FileDescriptor socket = MakeSocket();
    const sockaddr_un address = AddressOf(path_).value();
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    SendAll(socket.get(), octets);
    std::string received;
    return ReceiveLine(socket.get(), received, 1 << 20);
  }

  std::filesystem::path folder_, path_;
};

TEST_F(ControlTest, ACallGetsTheResultOfItsCommand) {
  const auto server = Serve();
  auto client = Client::Connect(path_);
  ASSERT_TRUE(client) << client.error().message;
  for (const int number : {1, 2}) {
    const auto result = client->Call("status", {{"number", number}});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(*result, (Json{{"command", "status"}, {"arguments", {{"number", number}}}}));
  }
}

TEST_F(ControlTest, ACommandThatFailsGetsItsErrorAndTheConnectionGoesOn) {
  const auto server = Serve();
  auto client = Client::Connect(path_);
  ASSERT_TRUE(client);
  const auto failed = client->Call("fail", Json::object());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "as asked");
  EXPECT_TRUE(client->Call("status", Json::object()));
}

TEST_F(ControlTest, AReplyHasTheIdOfItsRequest) {
  const auto server = Serve();
  EXPECT_EQ(Ask("{\"command\": \"a\", \"id\": [1, \"x\"]}\n"),
            R"({"id":[1,"x"],"result":{"arguments":{},"command":"a"}})");
}

TEST_F(ControlTest, AnswersMalformedRequestsWithTheReason) {
  const auto server = Serve();
  EXPECT_EQ(Ask("nonsense\n"), R"({"error":"a request is a line with a JSON object"})");
  EXPECT_EQ(Ask("[1]\n"), R"({"error":"a request is a line with a JSON object"})");
  EXPECT_EQ(Ask("{\"id\": 1}\n"), R"({"error":"the member \"command\" must be a text","id":1})");
  EXPECT_EQ(Ask("{\"command\": 1}\n"), R"({"error":"the member \"command\" must be a text"})");
  EXPECT_EQ(Ask("{\"command\": \"a\", \"arguments\": 3}\n"),
            R"({"error":"the member \"arguments\" must be an object"})");
  EXPECT_EQ(Ask("{\"command\": \"a\", \"args\": {}}\n"), R"({"error":"unknown member \"args\""})");
}

TEST_F(ControlTest, ATextThatIsNotUtf8IsAMalformedRequest) {
  const auto server = Serve();
  EXPECT_EQ(Ask("{\"command\": \"\xff\"}\n"), R"({"error":"a request is a line with a JSON object"})");
}

TEST_F(ControlTest, ResultsThatAreNotUtf8AreSentWithReplacementCharacters) {
  const auto server = Serve([](const std::string&, const Json&) -> SetupResult<Json> { return Json("a\xff"); });
  EXPECT_EQ(Ask("{\"command\": \"a\"}\n"), "{\"result\":\"a\xef\xbf\xbd\"}");
}

TEST_F(ControlTest, ARequestThatIsTooLongEndsTheConnectionWithTheReason) {
  const auto server = Serve();
  EXPECT_EQ(Ask(std::string(Server::kLongestRequest + (32 << 10), 'a')),
            R"({"error":"a request may have 65536 octets at most"})");
}

TEST_F(ControlTest, RefusesADeeplyNestedRequest) {
  const auto server = Serve();
  const auto nested = [](size_t depth) {
    return "{\"command\": \"[[\\\"[[\", \"id\": " + std::string(depth, '[') + std::string(depth, ']') + "}\n";
  };
  EXPECT_EQ(Ask(nested(30000)), R"({"error":"a request may be nested 32 deep at most"})");
  EXPECT_EQ(Ask(nested(32)), R"({"error":"a request may be nested 32 deep at most"})");
  const auto answer = Ask(nested(31));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("{\"id\":[[[[")) << answer->substr(0, 100);
}

TEST_F(ControlTest, OnlyTheUserMayUseTheSocketWhateverTheMaskIs) {
  const mode_t before = ::umask(0);
  const auto server = Serve();
  ::umask(before);
  struct stat made{};
  ASSERT_EQ(::stat(path_.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0600u);
}

TEST_F(ControlTest, AGroupMayUseTheSocketIfItIsNamed) {
  const mode_t before = ::umask(0);
  const auto server = Server::Open(path_, ::getegid());
  ::umask(before);
  ASSERT_TRUE(server) << server.error().message;
  struct stat made{};
  ASSERT_EQ(::stat(path_.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0660u);
  EXPECT_EQ(made.st_gid, ::getegid());
}

TEST_F(ControlTest, RefusesASocketThatAnotherServerUses) {
  const auto server = Serve();
  const auto other = Server::Open(path_, {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message,
            "cannot listen on the control socket " + path_.native() + ": another server uses it");
  EXPECT_TRUE(Client::Connect(path_)) << "the first server still answers";
}

TEST_F(ControlTest, ReplacesASocketThatAServerHasLeftBehind) {
  {
    const FileDescriptor left = MakeSocket();
    const sockaddr_un address = AddressOf(path_).value();
    ASSERT_EQ(::bind(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  const auto server = Serve();
  EXPECT_TRUE(Client::Connect(path_));
}

TEST_F(ControlTest, RefusesToReplaceAFile) {
  std::ofstream(path_) << "of somebody";
  const auto server = Server::Open(path_, {});
  ASSERT_FALSE(server);
  EXPECT_TRUE(server.error().message.ends_with("another file has this name")) << server.error().message;
  EXPECT_EQ(std::filesystem::file_size(path_), 11u);
}

TEST_F(ControlTest, RefusesAPathThatIsTooLongForASocket) {
  const auto server = Server::Open(folder_ / std::string(120, 'a'), {});
  ASSERT_FALSE(server);
  EXPECT_TRUE(server.error().message.starts_with("the path of the control socket has ")) << server.error().message;
}

TEST_F(ControlTest, TheSocketIsGoneWithItsServer) {
  Serve();
  EXPECT_FALSE(std::filesystem::exists(path_));
  const auto client = Client::Connect(path_);
  ASSERT_FALSE(client);
  EXPECT_TRUE(client.error().message.contains("no server runs with this control socket")) << client.error().message;
}

TEST_F(ControlTest, ACommandThatTakesLongHoldsUpNoOtherConnection) {
  std::binary_semaphore proceed(0);
  const auto server = Serve([&](const std::string& command, const Json&) -> SetupResult<Json> {
    if (command == "slow") proceed.acquire();
    return Json(command);
  });
  std::jthread slow([&] {
    auto client = Client::Connect(path_);
    EXPECT_EQ(client->Call("slow", Json::object()).value(), "slow");
  });
  auto client = Client::Connect(path_);
  EXPECT_EQ(client->Call("fast", Json::object()).value(), "fast");
  proceed.release();
}

TEST_F(ControlTest, AConnectionBeyondTheLimitIsToldSoUntilAnotherOneEnds) {
  const auto server = Serve();
  std::vector<Client> clients;
  for (size_t i = 0; i < Server::kMostConnections; ++i) {
    auto client = Client::Connect(path_);
    ASSERT_TRUE(client->Call("a", Json::object()));
    clients.push_back(*std::move(client));
  }
  auto refused = Client::Connect(path_);
  ASSERT_TRUE(refused);
  const auto answer = refused->Call("a", Json::object());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, "the control socket has 16 connections already, which is all that it takes");
  clients.clear();
  // The server notices the end of a connection when its thread does.
  for (;;) {
    auto next = Client::Connect(path_);
    if (next->Call("a", Json::object())) break;
    std::this_thread::yield();
  }
}

TEST_F(ControlTest, StoppingDoesNotWaitForACommandThatHangsAndBeginsNoOther) {
  std::binary_semaphore begun(0), proceed(0);
  std::atomic<int> ended = 0;
  auto server = Serve([&](const std::string&, const Json&) -> SetupResult<Json> {
    begun.release();
    proceed.acquire();
    ++ended;
    return Json();
  });
  const FileDescriptor socket = MakeSocket();
  const sockaddr_un address = AddressOf(path_).value();
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_TRUE(SendAll(socket.get(), "{\"command\": \"a\"}\n{\"command\": \"b\"}\n"));
  begun.acquire();
  server->StopAccepting();
  EXPECT_EQ(ended, 0);
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(Client::Connect(path_));
  std::string received;
  EXPECT_FALSE(ReceiveLine(socket.get(), received, 1 << 20)) << "the connection has ended";
  server->StopAccepting();  // once more does nothing
  proceed.release();
  server.reset();
  EXPECT_EQ(ended, 1) << "the destructor waits for the command that ran, and the other one does not begin";
}

TEST_F(ControlTest, TheEndOfTheServerEndsIdleConnections) {
  auto server = Serve();
  auto client = Client::Connect(path_);
  ASSERT_TRUE(client->Call("a", Json::object()));
  server.reset();
  const auto answer = client->Call("a", Json::object());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, "the server has closed the connection");
}

}  // namespace
}  // namespace penstock::control
