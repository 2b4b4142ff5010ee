// Calls that the server cannot execute at once, because a client of version 4 has a delegation, or because the file
// system lacks a resource. Version 2 has no error that says so.
#include <climits>

#include "fs/faulty/file_system.h"
#include "nfs/test_claims.h"
#include "nfs/test_waiting.h"
#include "nfs/v2/nfs_test.h"

namespace penstock::nfs::v2 {
namespace {

class WaitingTest : public testing::Test {
 protected:
  WaitingTest() {
    memory.Export("/");
    const Export& found = *memory.exports.table().Resolve("/").found;
    root = *found.PaddedHandleOf(found.file_system().Root());
    Serve({});
    const auto made = Call<NFSPROC_CREATE>({{root, "file"}, Mode(0644)});
    file = made.ok().file;
    claims.uses.clear();
  }

  void Serve(Settings settings) {
    program.emplace(memory.exports, settings, &claims);
    calls.Serve(*program);
  }

  void Start(rpc::Message call, std::optional<rpc::Message>& reply) { calls.Start(std::move(call), reply); }
  rpc::Message Ask(rpc::Message call) { return calls.Ask(std::move(call)); }
  template <class Procedure>
  typename Procedure::Results Call(const typename Procedure::Arguments& arguments) {
    return calls.Call<Procedure>(arguments);
  }
  nfsstat Write() {
    return Call<NFSPROC_WRITE>({file, 0, 0, 0, xdr::Payload<NFS_MAXDATA>::Borrowed(std::string_view("text"))}).status();
  }
  rpc::Message RemoveCall(uint32_t xid) {
    return memory.Encode(rpc::Xid(xid), NFS_PROGRAM, NFS_VERSION, NFSPROC_REMOVE::kNumber, diropargs{root, "file"});
  }

  TestServer memory;
  Claimed claims;
  WaitingCalls calls{memory};
  std::optional<Program> program;
  fhandle root;
  fhandle file;
};

TEST_F(WaitingTest, ACallWaitsUntilADelegationHasBeenReturned) {
  claims.conflicts = 3;
  EXPECT_EQ(Write(), NFS_OK);
  EXPECT_EQ(claims.uses, std::vector(4, FileClaims::Use::kWrite));
}

TEST_F(WaitingTest, EachProcedureChecksItsUseOfTheFile) {
  using enum FileClaims::Use;
  const auto uses = [&](auto call) {
    claims.uses.clear();
    call();
    return claims.uses;
  };
  using Uses = std::vector<FileClaims::Use>;
  EXPECT_EQ(uses([&] { Call<NFSPROC_GETATTR>(file); }), Uses{kReadAttributes});
  EXPECT_EQ(uses([&] { Call<NFSPROC_READ>({file, 0, 10, 0}); }), Uses{kRead});
  EXPECT_EQ(uses([&] { Write(); }), Uses{kWrite});
  EXPECT_EQ(uses([&] { Call<NFSPROC_SETATTR>({file, Mode(0600)}); }), Uses{kChange});
  EXPECT_EQ(uses([&] { Call<NFSPROC_SETATTR>({file, Size(1)}); }), Uses{kWrite});
  EXPECT_EQ(uses([&] { Call<NFSPROC_CREATE>({{root, "file"}, Size(0)}); }), Uses{kWrite});
  EXPECT_EQ(uses([&] { Call<NFSPROC_CREATE>({{root, "file"}, Mode(0644)}); }), Uses{});
  EXPECT_EQ(uses([&] { Call<NFSPROC_LINK>({file, {root, "link"}}); }), Uses{kChange});
  EXPECT_EQ(uses([&] { Call<NFSPROC_RENAME>({{root, "link"}, {root, "moved"}}); }), Uses{kChange});
  EXPECT_EQ(uses([&] { Call<NFSPROC_RENAME>({{root, "moved"}, {root, "file"}}); }), (Uses{kChange, kChange}));
  EXPECT_EQ(uses([&] { Call<NFSPROC_REMOVE>({root, "file"}); }), Uses{kChange});
  EXPECT_EQ(uses([&] { Call<NFSPROC_LOOKUP>({root, "moved"}); }), Uses{});
}

// Version 2 cannot leave the attributes out of a reply, as version 3 does.
TEST_F(WaitingTest, LookupWaitsForTheAttributesOfADelegatedFile) {
  claims.conflicts = 2;
  EXPECT_EQ((Call<NFSPROC_LOOKUP>({root, "file"}).status()), NFS_OK);
  EXPECT_EQ(claims.uses, std::vector(2, FileClaims::Use::kReadAttributes));
}

TEST_F(WaitingTest, ADeniedUseIsAnErrorAtOnce) {
  claims.verdict = FileClaims::Verdict::kDenied;
  claims.conflicts = 1;
  EXPECT_EQ(Write(), NFSERR_ACCES);
  EXPECT_EQ(claims.uses.size(), 1u);
}

TEST_F(WaitingTest, ACallThatHasWaitedLongEnoughGetsNoReplyAndIsNotRemembered) {
  Serve({.patience = std::chrono::milliseconds(20)});
  claims.conflicts = INT_MAX;
  const size_t remembered = calls.cache.entries();
  EXPECT_TRUE(Ask(RemoveCall(77)).empty());
  EXPECT_GE(claims.uses.size(), 2u);
  EXPECT_EQ(calls.cache.entries(), remembered);
  claims.conflicts = 0;
  const rpc::Message reply = Ask(RemoveCall(77));  // sent again
  EXPECT_FALSE(reply.empty());
  EXPECT_EQ((Call<NFSPROC_LOOKUP>({root, "file"}).status()), NFSERR_NOENT);
}

TEST_F(WaitingTest, NoCallWaitsWhenTheServerStops) {
  claims.conflicts = INT_MAX;
  std::optional<rpc::Message> reply;
  Start(RemoveCall(1), reply);
  EXPECT_FALSE(reply);
  program->StopWaiting();
  EXPECT_TRUE(TurnUntil(calls.loop, [&] { return reply.has_value(); }));
  EXPECT_TRUE(reply->empty());
  const size_t before = claims.uses.size();
  EXPECT_TRUE(Ask(RemoveCall(2)).empty());
  EXPECT_EQ(claims.uses.size(), before + 1);
}

// The duplicate of a call that waits gets its reply as well.
TEST_F(WaitingTest, ADuplicateWaitsWithTheFirstCall) {
  claims.conflicts = 3;
  std::optional<rpc::Message> first, second;
  Start(RemoveCall(5), first);
  Start(RemoveCall(5), second);
  ASSERT_TRUE(TurnUntil(calls.loop, [&] { return first && second; }));
  EXPECT_TRUE(Equal(first->stream.bytes(), second->stream.bytes()));
  EXPECT_EQ(claims.uses.size(), 4u);
}

TEST_F(WaitingTest, ACallWaitsForTheResourcesOfTheFileSystem) {
  struct Starved final : fs::faulty::FileSystem {
    using FileSystem::FileSystem;
    Task<fs::Result<fs::Attributes>> GetAttributes(const fs::RequestContext& context,
                                                   const fs::Handle& object) override {
      if (calls++ < 2) co_return std::unexpected(fs::Error::kDelay);
      co_return co_await fs::faulty::FileSystem::GetAttributes(context, object);
    }
    int calls = 0;
  };
  const auto inner = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{.instance = 99});
  const auto starved = std::make_shared<Starved>(inner);
  ASSERT_TRUE(memory.exports.Add("/starved", starved, {.squash = Squash::kNone}));
  const Export& found = *memory.exports.table().Resolve("/starved").found;
  EXPECT_EQ(Call<NFSPROC_GETATTR>(*found.PaddedHandleOf(inner->Root())).status(), NFS_OK);
  EXPECT_EQ(starved->calls, 3);
}

}  // namespace
}  // namespace penstock::nfs::v2
