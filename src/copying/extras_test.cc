#include "copying/extras.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "copying/acl_forms.h"
#include "protocol/nfs4_attributes.h"

namespace penstock::copying {
namespace {

using client::Ace;
using client::Error;
using client::Result;
using client::Status;
using enum fs::AclTag;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Runs a task that waits for nothing.
template <class T>
T Now(Task<T> task) {
  std::optional<T> result;
  const auto run = [](Task<T> inner, std::optional<T>& into) -> Task<void> { into = co_await std::move(inner); };
  Spawn(run(std::move(task), result));
  EXPECT_TRUE(result);
  return *std::move(result);
}

Error Unsupported() { return {"not supported", Status::kNotSupported, EOPNOTSUPP}; }

// An object in memory.
struct Object final : Extras {
  enum class Form { kNone, kPosix, kNfs4 };

  Object(Form has, uint32_t mode) : form(has), now(mode) {
    mode_ = mode;
    acls.access = fs::AclOfMode(mode);
    if (form == Form::kNfs4) aces = AcesOf(acls, false);
  }

  bool tells_all() const override { return tells; }
  Task<Result<Acl>> GetAcl() override {
    if (fails_get) co_return std::unexpected(*fails_get);
    if (form == Form::kNone) co_return std::unexpected(Unsupported());
    if (form == Form::kNfs4) co_return Acl(aces);
    co_return Acl(acls);
  }
  Task<Result<void>> SetAcl(Acl acl) override {
    ++changes;
    if (fails_set) co_return std::unexpected(*fails_set);
    if (form == Form::kNfs4) {
      aces = std::get<std::vector<Ace>>(acl);
      // Like servers that keep a list of POSIX.
      if (keeps_posix) aces.resize(1);
    } else {
      acls = std::get<fs::Acls>(acl);
    }
    co_return Result<void>();
  }
  Task<Result<void>> SetMode(uint32_t mode) override {
    ++changes;
    now = mode;
    co_return Result<void>();
  }
  Task<std::optional<uint32_t>> NumberOf(idmap::Kind, std::string text) override {
    if (text == "ann@example.org") co_return 1003;
    if (text.contains('@')) co_return std::nullopt;
    co_return static_cast<uint32_t>(std::stoul(text));
  }
  Task<Result<std::vector<std::string>>> ListXattrs() override {
    if (!has_xattrs) co_return std::unexpected(Unsupported());
    std::vector<std::string> names;
    for (const auto& [name, value] : xattrs) names.push_back(name);
    co_return names;
  }
  Task<Result<std::vector<std::byte>>> GetXattr(std::string name) override {
    const auto found = xattrs.find(name);
    if (found == xattrs.end()) co_return std::unexpected(Error{"no data", std::nullopt, ENODATA});
    const ConstBytes octets = AsBytes(found->second);
    co_return std::vector<std::byte>(octets.begin(), octets.end());
  }
  Task<Result<void>> SetXattr(std::string name, ConstBytes value) override {
    if (!has_xattrs) co_return std::unexpected(Unsupported());
    if ((now & 0200) == 0) co_return std::unexpected(Error{"permission denied", Status::kAccess, EACCES});
    if (value.size() > room) co_return std::unexpected(Error{"no space left on device", Status::kNoSpace, ENOSPC});
    ++changes;
    xattrs[name] = AsText(value);
    co_return Result<void>();
  }
  Task<Result<void>> RemoveXattr(std::string name) override {
    ++changes;
    xattrs.erase(name);
    co_return Result<void>();
  }

  Form form;
  uint32_t now;  // the mode
  fs::Acls acls;
  std::vector<Ace> aces;
  bool has_xattrs = true;
  bool tells = true;
  bool keeps_posix = false;
  std::optional<Error> fails_get, fails_set;
  std::map<std::string, std::string> xattrs;
  size_t room = SIZE_MAX;
  int changes = 0;
};
using Form = Object::Form;

// owner rw-, user 1003 ---, owning group r--, mask r--, other r--
const fs::Acl kList = {{kOwner, 0, 6}, {kUser, 1003, 0}, {kOwningGroup, 0, 4}, {kMask, 0, 4}, {kOther, 0, 4}};

ExtrasReport CopyAcl(Object& from, Object& to, Matching how = {.is_new = true}) {
  return Now(MatchAcl(from, to, from.now & 0777, 04000, how));
}

Object WithList(Form form) {
  Object object(form, 0644);
  object.acls.access = kList;
  if (form == Form::kNfs4) object.aces = AcesOf(object.acls, false);
  return object;
}

TEST(MatchAcl, KeepsAListInEachForm) {
  for (const Form source : {Form::kPosix, Form::kNfs4}) {
    for (const Form target : {Form::kPosix, Form::kNfs4}) {
      Object from = WithList(source), to(target, 0600);
      const ExtrasReport report = CopyAcl(from, to);
      EXPECT_TRUE(report.changed);
      EXPECT_THAT(report.failures, IsEmpty());
      EXPECT_EQ(to.changes, 1);
      if (target == Form::kPosix) {
        EXPECT_EQ(to.acls.access, kList);
      } else {
        EXPECT_EQ(to.aces, AcesOf({kList, {}}, false));
      }
      EXPECT_FALSE(CopyAcl(from, to, {}).changed) << "nothing is left to do";
      EXPECT_EQ(to.changes, 1);
    }
  }
}

TEST(MatchAcl, ADryRunOnlyCompares) {
  Object from = WithList(Form::kPosix), to(Form::kNfs4, 0644);
  EXPECT_TRUE(CopyAcl(from, to, {.dry_run = true}).changed);
  EXPECT_EQ(to.changes, 0);
}

TEST(MatchAcl, RemovesAListThatADirectoryHasHandedDown) {
  Object from(Form::kPosix, 0644), to = WithList(Form::kPosix);
  EXPECT_TRUE(CopyAcl(from, to).changed);
  EXPECT_EQ(to.acls.access, fs::AclOfMode(0644));
}

TEST(MatchAcl, AModeAllowsNobodyMoreThanTheList) {
  Object from = WithList(Form::kPosix), to(Form::kNone, 0644);
  const ExtrasReport report = CopyAcl(from, to);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_THAT(report.failures[0].message, HasSubstr("the target has no access control lists; its mode 4600"));
  EXPECT_EQ(to.now, 04600u) << "user 1003 would be one of the others";

  // The list of a mode loses nothing.
  Object plain(Form::kPosix, 0754), other(Form::kNone, 0700);
  EXPECT_THAT(CopyAcl(plain, other).failures, IsEmpty());
  EXPECT_EQ(other.now, 04754u);
}

TEST(MatchAcl, AServerWhoseFileSystemHasNoListsGetsAMode) {
  for (const Form form : {Form::kPosix, Form::kNfs4}) {
    Object from = WithList(Form::kPosix), to(form, 0600);
    to.fails_set = Unsupported();
    EXPECT_EQ(CopyAcl(from, to).failures.size(), 1u);
    EXPECT_EQ(to.now & 0777, 0600u);
    Object plain(Form::kPosix, 0754);
    EXPECT_THAT(CopyAcl(plain, to).failures, IsEmpty()) << "its mode says all";
    EXPECT_EQ(to.now, 04754u);
  }
}

TEST(MatchAcl, AFailureLeavesANewObjectWithoutMoreRights) {
  Object from = WithList(Form::kPosix), to(Form::kPosix, 0600);
  to.fails_set = Error{"no space left on device", std::nullopt, ENOSPC};
  ExtrasReport report = CopyAcl(from, to);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0].message, "access control list: no space left on device");
  EXPECT_EQ(to.now, 04600u);

  // The permissions of the group may be the mask of a list that cannot be read.
  from.fails_get = Error{"input/output error", std::nullopt, EIO};
  EXPECT_EQ(CopyAcl(from, to).failures.size(), 1u);
  EXPECT_EQ(to.now, 04600u);
}

TEST(MatchAcl, TellsThatPosixCannotExpressAList) {
  Object from(Form::kNfs4, 0644), to(Form::kPosix, 0600);
  from.aces.insert(from.aces.begin(), Ace{0, 0, nfs4::ACE4_READ_DATA | nfs4::ACE4_WRITE_ACL, "ann@example.org"});
  ExtrasReport report = CopyAcl(from, to);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_THAT(report.failures[0].message, HasSubstr("cannot express"));
  EXPECT_EQ(to.acls.access[1], (fs::AclEntry{kUser, 1003, 4}));
  report = CopyAcl(from, to, {});
  EXPECT_FALSE(report.changed);
  EXPECT_EQ(report.failures.size(), 1u) << "the two are still not equal";

  from.aces[0].who = "nobody@elsewhere.org";
  Object other(Form::kPosix, 0600);
  report = CopyAcl(from, other);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_THAT(report.failures[0].message, HasSubstr("nobody@elsewhere.org"));
  EXPECT_EQ(other.now, 04600u);
}

TEST(MatchAcl, TellsThatAServerKeepsAnotherList) {
  Object from(Form::kNfs4, 0644), to(Form::kNfs4, 0600);
  from.aces.insert(from.aces.begin(), Ace{0, 0, nfs4::ACE4_WRITE_DATA, "1003"});
  EXPECT_THAT(CopyAcl(from, to).failures, IsEmpty());
  EXPECT_EQ(to.aces, from.aces);
  Object other(Form::kNfs4, 0600);
  other.keeps_posix = true;
  const ExtrasReport report = CopyAcl(from, other);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_THAT(report.failures[0].message, HasSubstr("the server keeps another access control list"));
}

TEST(MatchAcl, ASourceThatHidesItsListsIsReported) {
  Object from(Form::kNone, 0640), to(Form::kPosix, 0600);
  EXPECT_FALSE(CopyAcl(from, to).hidden) << "a local file system without lists has none";
  from.tells = false;
  EXPECT_TRUE(CopyAcl(from, to).hidden);
  EXPECT_EQ(to.acls.access, fs::AclOfMode(0640));
}

TEST(MatchXattrs, MakesThemEqual) {
  Object from(Form::kNone, 0644), to(Form::kNone, 0644);
  from.xattrs = {{"a", "1"}, {"b", ""}, {"c", std::string(100'000, 'x')}};
  to.xattrs = {{"a", "1"}, {"b", "2"}, {"gone", "3"}};
  EXPECT_TRUE(Now(MatchXattrs(from, to, {.dry_run = true})).changed);
  EXPECT_EQ(to.changes, 0);
  ExtrasReport report = Now(MatchXattrs(from, to, {}));
  EXPECT_TRUE(report.changed);
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_EQ(to.xattrs, from.xattrs);
  EXPECT_EQ(to.changes, 3);
  EXPECT_FALSE(Now(MatchXattrs(from, to, {})).changed);
}

TEST(MatchXattrs, GoesOnAfterAValueWithoutRoom) {
  Object from(Form::kNone, 0644), to(Form::kNone, 0644);
  from.xattrs = {{"a", "1"}, {"big", std::string(1 << 20, 'x')}, {"c", "2"}};
  to.room = 4096;
  const ExtrasReport report = Now(MatchXattrs(from, to, {.is_new = true}));
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0].message, "extended attribute user.big: no space left on device");
  EXPECT_EQ(to.xattrs, (std::map<std::string, std::string>{{"a", "1"}, {"c", "2"}}));
}

TEST(MatchXattrs, SetsThoseOfAFileThatItsOwnerMayNotWrite) {
  Object from(Form::kNone, 0444), to(Form::kNone, 04444);
  from.xattrs = {{"a", "1"}};
  EXPECT_THAT(Now(MatchXattrs(from, to, {})).failures, IsEmpty());
  EXPECT_EQ(to.xattrs, from.xattrs);
  EXPECT_EQ(to.now, 04444u) << "the mode is as before";
}

TEST(MatchXattrs, TellsWhichEndHasNone) {
  Object from(Form::kNone, 0644), to(Form::kNone, 0644);
  to.has_xattrs = false;
  EXPECT_THAT(Now(MatchXattrs(from, to, {})).failures, IsEmpty()) << "there is nothing to lose";
  from.xattrs = {{"a", "1"}, {"b", "1"}};
  const ExtrasReport report = Now(MatchXattrs(from, to, {}));
  ASSERT_EQ(report.failures.size(), 1u) << "one line for a file";
  EXPECT_EQ(report.failures[0].message, "extended attributes: not supported");
  from.has_xattrs = false;
  EXPECT_FALSE(Now(MatchXattrs(from, to, {})).hidden);
  from.tells = false;
  EXPECT_TRUE(Now(MatchXattrs(from, to, {})).hidden);
}

TEST(MatchXattrs, RefusesNamesThatEndEarly) {
  Object from(Form::kNone, 0644), to(Form::kNone, 0644);
  from.xattrs = {{std::string("a\0b", 3), "1"}, {"", "2"}};
  EXPECT_EQ(Now(MatchXattrs(from, to, {})).failures.size(), 2u);
  EXPECT_THAT(to.xattrs, IsEmpty());
}

TEST(AclForms, AModeWithinAListHasWhatAllNamedOnesMay) {
  EXPECT_EQ(ModeWithin(fs::AclOfMode(0754)), 0754u);
  EXPECT_EQ(ModeWithin(fs::AclOfMode(0604)), 0604u);
  const fs::Acl named = {{kOwner, 0, 7}, {kUser, 1003, 7}, {kOwningGroup, 0, 5},
                         {kGroup, 7, 6}, {kMask, 0, 7},    {kOther, 0, 5}};
  EXPECT_EQ(ModeWithin(named), 0744u);
  const fs::Acl masked = {{kOwner, 0, 7}, {kOwningGroup, 0, 7}, {kMask, 0, 4}, {kOther, 0, 1}};
  EXPECT_EQ(ModeWithin(masked), 0741u);
}

TEST(AclForms, RejectsMalformedLists) {
  EXPECT_FALSE(AclsOf({.access = {{1, 0, 7}}, .defaults = {}}, 0644)) << "without an entry for others";
  EXPECT_FALSE(AclsOf({.access = {{3, 0, 7}}, .defaults = {}}, 0644));
  EXPECT_EQ(AclsOf({}, 0640)->access, fs::AclOfMode(0640));
}

}  // namespace
}  // namespace penstock::copying
