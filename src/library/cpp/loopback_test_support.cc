#include "library/cpp/loopback_test_support.h"

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/loop.h"
#include "base/signal.h"
#include "base/task.h"
#include "client/service_test_support.h"
#include "protocol/nfs4.h"

namespace penstock_test {

namespace {

penstock::client::CallMatcher Reads() { return penstock::client::CompoundsWith(penstock::nfs4::nfs_opnum4::OP_READ); }

}  // namespace

class LoopbackServer::Thread {
 public:
  Thread() {
    std::promise<uint16_t> port;
    thread_ = std::thread([this, &port] { Run(port); });
    port_ = port.get_future().get();
  }
  ~Thread() {
    Release();
    loop_->Stop();
    thread_.join();
  }

  uint16_t port() const { return port_; }
  // Runs `function` on the thread of the server and waits for it.
  void Do(const std::function<void()>& function) {
    std::promise<void> done;
    loop_->Post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }
  void Hold(size_t count) {
    Do([&] {
      released_ = false;
      for (size_t i = 0; i < count; ++i) service_->DelayReply(Reads(), [this] { return WaitForRelease(); });
    });
  }
  void Release() {
    Do([&] {
      released_ = true;
      release_.Notify();
    });
  }
  size_t CountReads() {
    size_t count = 0;
    Do([&] { count = service_->CountCalls(Reads()); });
    return count;
  }

 private:
  void Run(std::promise<uint16_t>& port) {
    penstock::Loop loop;
    penstock::client::TestService service(loop, {});
    loop_ = &loop;
    service_ = &service;
    port.set_value(service.port());
    loop.Run();
  }
  penstock::Task<void> WaitForRelease() {
    while (!released_) co_await release_;
  }

  std::thread thread_;
  uint16_t port_ = 0;
  penstock::Loop* loop_ = nullptr;
  // The following members belong to the thread.
  penstock::client::TestService* service_ = nullptr;
  bool released_ = true;
  penstock::Signal release_;
};

LoopbackServer::LoopbackServer() : thread_(std::make_unique<Thread>()) {}
LoopbackServer::~LoopbackServer() = default;

std::string LoopbackServer::Url(std::string_view version) const {
  const std::string port = std::to_string(thread_->port());
  return "nfs://127.0.0.1:" + port + "/?mountport=" + port +
         "&uid=0&gid=0&noresvport&timeout=20&vers=" + std::string(version);
}

void LoopbackServer::HoldReads(size_t count) { thread_->Hold(count); }
void LoopbackServer::ReleaseReads() { thread_->Release(); }

size_t LoopbackServer::CountReads() const { return thread_->CountReads(); }

}  // namespace penstock_test
