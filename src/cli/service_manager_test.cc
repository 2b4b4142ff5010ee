#include "cli/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/udp.hpp>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

namespace penstock::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Stands in for the service manager: receives what the program tells it.
class ServiceManagerTest : public testing::Test {
 protected:
  ServiceManagerTest() {
    if (!HasServiceManagerSupport()) return;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  }
  ~ServiceManagerTest() override {
    for (const char* const each : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(each);
    ::unlink(path_.c_str());
  }
  void SetUp() override {
    if (!HasServiceManagerSupport()) GTEST_SKIP() << "built without libsystemd";
  }
  // Waits for the next message.
  std::string Next() {
    char text[500];
    const ssize_t size = ::recv(socket_.get(), text, sizeof text, 0);
    return size < 0 ? "nothing" : std::string(text, static_cast<size_t>(size));
  }

  const std::string path_ = testing::TempDir() + "penstock-notify." + std::to_string(::getpid());
  const FileDescriptor socket_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

TEST_F(ServiceManagerTest, HearsTheStates) {
  NotifyReady("2 exports\nand more");
  EXPECT_EQ(Next(), "READY=1\nSTATUS=2 exports and more");
  NotifyReloading();
  EXPECT_THAT(Next(), testing::MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+\nSTATUS=.*"));
  NotifyStatus("3 exports");
  EXPECT_EQ(Next(), "STATUS=3 exports");
  NotifyStopping();
  EXPECT_THAT(Next(), HasSubstr("STOPPING=1"));
}

TEST_F(ServiceManagerTest, HearsThatTheServerLivesWhileItsLoopsAnswer) {
  ::setenv("WATCHDOG_USEC", "100000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  std::atomic<Duration> asked{};
  const LifeSigns signs({.loops_answer =
                             [&](Duration limit) {
                               asked = limit;
                               return true;
                             },
                         .status = [] { return "serves"; }});
  EXPECT_EQ(Next(), "WATCHDOG=1");
  EXPECT_EQ(Next(), "STATUS=serves");
  EXPECT_EQ(Next(), "WATCHDOG=1") << "the status has not changed";
  EXPECT_EQ(asked.load(), std::chrono::milliseconds(50));
}

TEST_F(ServiceManagerTest, HearsNoSignOfLifeWhileALoopHangs) {
  ::setenv("WATCHDOG_USEC", "100000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  std::atomic<int> rounds = 0;
  {
    const LifeSigns signs(
        {.loops_answer = [](Duration) { return false; }, .status = [&] { return std::to_string(++rounds); }});
    EXPECT_EQ(Next(), "STATUS=1");
    EXPECT_EQ(Next(), "STATUS=2");
  }
  char text[500];
  while (::recv(socket_.get(), text, sizeof text, MSG_DONTWAIT) > 0) EXPECT_EQ(std::string(text, 7), "STATUS=");
}

TEST_F(ServiceManagerTest, HearsTheStatusWithoutAWatchdog) {
  const LifeSigns signs({.loops_answer = [](Duration) { return false; }, .status = [] { return "serves"; }});
  EXPECT_EQ(Next(), "STATUS=serves");
}

TEST(PassedSockets, NobodyPassesAny) {
  const auto taken = TakePassedSockets();
  ASSERT_TRUE(taken);
  EXPECT_TRUE(taken->tcp.empty() && taken->rdma.empty() && taken->mount.empty() && taken->mount_udp.empty() &&
              taken->http.empty());
}

// A socket that is bound to a port of the loopback interface.
FileDescriptor Bound(int type, bool listens = false) {
  FileDescriptor socket(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
  const SocketAddress any(asio::ip::address_v4::loopback(), 0);
  EXPECT_EQ(::bind(socket.get(), any.data(), static_cast<socklen_t>(any.size())), 0);
  if (listens) {
    EXPECT_EQ(::listen(socket.get(), 5), 0);
  }
  return socket;
}

SetupResult<server::PassedSockets> Sort(FileDescriptor socket, std::string name) {
  std::vector<NamedSocket> sockets;
  sockets.push_back({std::move(socket), std::move(name)});
  return SortSockets(std::move(sockets));
}

TEST(PassedSockets, HaveNames) {
  std::vector<NamedSocket> sockets;
  for (const char* const name : {"nfs-tcp", "nfs-tcp", "nfs-rdma", "mount", "http"}) {
    sockets.push_back({Bound(SOCK_STREAM, true), name});
  }
  sockets.push_back({Bound(SOCK_DGRAM), "mount-udp"});
  const auto sorted = SortSockets(std::move(sockets));
  ASSERT_TRUE(sorted) << sorted.error().message;
  EXPECT_THAT(sorted->tcp, SizeIs(2));
  EXPECT_THAT(sorted->rdma, SizeIs(1));
  EXPECT_THAT(sorted->mount, SizeIs(1));
  EXPECT_THAT(sorted->mount_udp, SizeIs(1));
  EXPECT_THAT(sorted->http, SizeIs(1));
}

TEST(PassedSockets, AWrongOneIsAnErrorThatNamesIt) {
  const auto error = [](FileDescriptor socket, const char* name) {
    const auto sorted = Sort(std::move(socket), name);
    return sorted ? "no error" : sorted.error().message;
  };
  EXPECT_EQ(error(Bound(SOCK_STREAM, true), "nfs"),
            "the service manager passes a socket named \"nfs\": the names (FileDescriptorName=) are nfs-tcp, nfs-rdma, "
            "mount, mount-udp, http");
  EXPECT_THAT(error(Bound(SOCK_DGRAM), "nfs-tcp"), HasSubstr("\"nfs-tcp\""));
  EXPECT_THAT(error(Bound(SOCK_DGRAM), "nfs-tcp"), HasSubstr("must be ListenStream="));
  EXPECT_THAT(error(Bound(SOCK_STREAM, true), "mount-udp"), HasSubstr("must be ListenDatagram="));
  EXPECT_THAT(error(Bound(SOCK_STREAM), "nfs-rdma"), HasSubstr("\"nfs-rdma\" of the service manager does not listen"));
  EXPECT_THAT(error(FileDescriptor(::socket(AF_UNIX, SOCK_STREAM, 0)), "http"), HasSubstr("IPv4 or IPv6"));
  EXPECT_THAT(error(FileDescriptor(::dup(2)), "mount"), HasSubstr("is not a socket"));
}

}  // namespace
}  // namespace penstock::cli
