#include "nfs/nlm/nlm_test.h"

#include <algorithm>
#include <string>

#include "protocol/nsm.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::nlm {
namespace {

template <class Arguments>
SentCall GrantedOf(xdr::Decoder& decoder) {
  Arguments sent;
  EXPECT_TRUE(xdr::Decode(decoder, sent) && decoder.Finish());
  return {.to = {},
          .caller_name = std::string(sent.alock.caller_name),
          .fh = std::string(AsText(sent.alock.fh.bytes())),
          .oh = std::string(AsText(sent.alock.oh.bytes())),
          .process = sent.alock.svid,
          .offset = sent.alock.l_offset,
          .length = sent.alock.l_len,
          .exclusive = sent.exclusive};
}

SentCall ResultsOf(xdr::Decoder& decoder) {
  nlm4_res sent;
  EXPECT_TRUE(xdr::Decode(decoder, sent) && decoder.Finish());
  return {.to = {}, .cookie = std::string(AsText(sent.cookie.bytes())), .status = static_cast<uint32_t>(sent.stat)};
}

SentCall TestResultsOf(xdr::Decoder& decoder) {
  nlm4_testres sent;
  EXPECT_TRUE(xdr::Decode(decoder, sent) && decoder.Finish());
  return {.to = {},
          .cookie = std::string(AsText(sent.cookie.bytes())),
          .status = static_cast<uint32_t>(sent.test_stat.discriminant())};
}

SentCall NoticeOf(xdr::Decoder& decoder) {
  nsm::stat_chge sent;
  EXPECT_TRUE(xdr::Decode(decoder, sent) && decoder.Finish());
  return {.to = {}, .name = std::string(sent.mon_name), .state = sent.state};
}

// Each address is asked for under a name of its own.
void ExpectAskerFor(std::string_view name, const nsm::my_id& id) {
  std::string own(name);
  std::ranges::replace_if(own, [](char c) { return c == '.' || c == ':'; }, '-');
  EXPECT_EQ(id.my_name, own + ".penstock.invalid.");
  EXPECT_EQ(id.my_prog, NLM4_PROGRAM);
  EXPECT_EQ(id.my_vers, NLM4_VERS);
  EXPECT_EQ(id.my_proc, NLMPROC4_SM_NOTIFY::kNumber);
}

SentCall WatchOf(xdr::Decoder& decoder) {
  nsm::mon sent;
  EXPECT_TRUE(xdr::Decode(decoder, sent) && decoder.Finish());
  ExpectAskerFor(sent.id.mon_name, sent.id.id);
  return {.to = {}, .cookie = std::string(AsText(sent.priv)), .name = std::string(sent.id.mon_name)};
}

SentCall EndOf(xdr::Decoder& decoder) {
  nsm::mon_id sent;
  EXPECT_TRUE(xdr::Decode(decoder, sent) && decoder.Finish());
  ExpectAskerFor(sent.mon_name, sent.id);
  return {.to = {}, .name = std::string(sent.mon_name)};
}

SentCall DecodeNsm(uint32_t procedure, xdr::Decoder& decoder) {
  switch (procedure) {
    case nsm::SM_MON::kNumber:
      return WatchOf(decoder);
    case nsm::SM_UNMON::kNumber:
      return EndOf(decoder);
    default:
      return NoticeOf(decoder);
  }
}

SentCall Decode(const HostCall& to, xdr::Decoder& decoder) {
  if (to.program == nsm::SM_PROG) return DecodeNsm(to.procedure, decoder);
  if (to.procedure == NLMPROC4_TEST_RES::kNumber) return TestResultsOf(decoder);
  if (to.procedure != NLMPROC4_GRANTED::kNumber) return ResultsOf(decoder);
  return to.version == NLM4_VERS ? GrantedOf<nlm4_testargs>(decoder) : GrantedOf<nlm1::nlm_testargs>(decoder);
}

}  // namespace

Task<HostCalls::Outcome> TestHosts::Call(HostCall call, std::function<void(xdr::Encoder&)> write,
                                         std::function<bool(xdr::Decoder&)> read) {
  xdr::Encoder arguments(buffers_);
  write(arguments);
  const xdr::Message sent = arguments.Finish();
  xdr::Decoder decoder(sent);
  calls.push_back(Decode(call, decoder));
  calls.back().to = call;
  if (hold) {
    OneShot<> over;
    const Cancellation::Entry entry(call.cancellation, [&over] {
      if (!over.is_set()) over.Set();
    });
    held_.push_back(&over);
    co_await over;
    std::erase(held_, &over);
  }
  if (IsCancelled(call.cancellation)) co_return Outcome::kEnded;
  if (outcome != Outcome::kAnswered) co_return outcome;
  xdr::Encoder encoder(buffers_);
  if (call.program == nsm::SM_PROG) {
    if (call.procedure == nsm::SM_MON::kNumber) {
      xdr::Encode(encoder, nsm::sm_stat_res{.res_stat = monitoring, .state = 1});
    } else if (call.procedure != nsm::SM_NOTIFY::kNumber) {
      xdr::Encode(encoder, nsm::sm_stat{.state = 1});
    }
  } else if (call.procedure == NLMPROC4_GRANTED::kNumber) {
    xdr::Encode(encoder, nlm4_res{.cookie = {}, .stat = status});
  }
  const xdr::Message results = encoder.Finish();
  xdr::Decoder reply(results);
  co_return read(reply) ? Outcome::kAnswered : Outcome::kRefused;
}

void TestHosts::Release() {
  hold = false;
  ReleaseHeld();
}

void TestHosts::ReleaseHeld() {
  const std::vector<OneShot<>*> held = held_;
  for (OneShot<>* each : held) {
    if (std::ranges::find(held_, each) != held_.end()) each->Set();
  }
}

NlmTest::NlmTest(const WaitingLocks::Settings& settings)
    : manager(server.exports, locks, hosts, local_monitor, nullptr, world, settings) {
  server.Serve(program4);
  server.Serve(program3);
  server.Serve(program1);
  server.callbacks.on_host_notice = [this](const v4::LockNotice& notice) { manager.Tell(notice); };
}

NlmTest::~NlmTest() {
  Spawn(local_monitor.Stop());
  Spawn(manager.Stop());
  world.Run();
  server.callbacks.on_host_notice = nullptr;
}

}  // namespace penstock::nfs::nlm
