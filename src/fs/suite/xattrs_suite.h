// Tests of extended attributes and of access control lists.
#pragma once

#include "fs/suite/data_suite.h"

namespace penstock::fs::suite {

class XattrsSuite : public FileSystemSuite {
 protected:
  void SetUp() override {
    FileSystemSuite::SetUp();
    if (!fs().GetProperties().xattrs) GTEST_SKIP() << "this file system has no extended attributes";
  }
  Changed<void> SetXattr(const Handle& object, std::string_view name, std::string_view value,
                         XattrMode mode = XattrMode::kEither) {
    return Await(fs().SetXattr(caller_, object, name, AsBytes(value), mode));
  }
  Result<std::string> GetXattr(const Handle& object, std::string_view name) {
    const auto observed = Await(fs().GetXattr(caller_, object, name));
    EXPECT_TRUE(observed.attributes);
    if (!observed.result) return std::unexpected(observed.result.error());
    return std::string(AsText(*observed.result));
  }
  Changed<void> RemoveXattr(const Handle& object, std::string_view name) {
    return Await(fs().RemoveXattr(caller_, object, name));
  }
  Result<std::vector<std::string>> ListXattrs(const Handle& object) {
    return Await(fs().ListXattrs(caller_, object)).result;
  }
};

TEST_P(XattrsSuite, ReturnsTheValueThatWasSet) {
  for (const Handle& object : {Make(root_, "file"), MakeDirectory(root_, "directory")}) {
    const Attributes before = Stat(object);
    const Changed<void> set = SetXattr(object, "name", std::string_view("va\0lue", 6));
    ASSERT_TRUE(set.result) << ToString(set.result.error());
    ExpectNoted(set.object, before, object);
    EXPECT_NE(Stat(object).change, before.change);
    EXPECT_EQ(GetXattr(object, "name"), std::string("va\0lue", 6));
    ASSERT_TRUE(SetXattr(object, "name", "").result);
    EXPECT_EQ(GetXattr(object, "name"), "");
  }
}

TEST_P(XattrsSuite, RemovesAnAttribute) {
  const Handle file = Make(root_, "file");
  ASSERT_TRUE(SetXattr(file, "name", "value").result);
  const Attributes before = Stat(file);
  const Changed<void> removed = RemoveXattr(file, "name");
  ASSERT_TRUE(removed.result);
  ExpectNoted(removed.object, before, file);
  EXPECT_EQ(ErrorOf(GetXattr(file, "name")), Error::kNoXattr);
  EXPECT_EQ(ErrorOf(RemoveXattr(file, "name").result), Error::kNoXattr);
}

TEST_P(XattrsSuite, CreateRequiresANewNameAndReplaceAnExistingOne) {
  const Handle file = Make(root_, "file");
  EXPECT_EQ(ErrorOf(SetXattr(file, "name", "x", XattrMode::kReplace).result), Error::kNoXattr);
  EXPECT_TRUE(SetXattr(file, "name", "one", XattrMode::kCreate).result);
  EXPECT_EQ(ErrorOf(SetXattr(file, "name", "x", XattrMode::kCreate).result), Error::kExist);
  EXPECT_EQ(GetXattr(file, "name"), "one");
  EXPECT_TRUE(SetXattr(file, "name", "two", XattrMode::kReplace).result);
  EXPECT_TRUE(SetXattr(file, "name", "three", XattrMode::kEither).result);
  EXPECT_EQ(GetXattr(file, "name"), "three");
}

TEST_P(XattrsSuite, ListsNamesSorted) {
  const Handle file = Make(root_, "file");
  EXPECT_EQ(ListXattrs(file), std::vector<std::string>());
  for (const char* name : {"c", "a", "user.b"}) ASSERT_TRUE(SetXattr(file, name, "x").result);
  EXPECT_EQ(ListXattrs(file), (std::vector<std::string>{"a", "c", "user.b"}));
}

TEST_P(XattrsSuite, RejectsInvalidAndTooLongNamesAndValues) {
  const Handle file = Make(root_, "file");
  EXPECT_EQ(ErrorOf(SetXattr(file, "", "x").result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(SetXattr(file, std::string_view("a\0b", 3), "x").result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(SetXattr(file, std::string(251, 'n'), "x").result), Error::kNameTooLong);
  EXPECT_EQ(ErrorOf(GetXattr(file, std::string(251, 'n'))), Error::kNameTooLong);
  EXPECT_TRUE(SetXattr(file, std::string(250, 'n'), "x").result);
  EXPECT_EQ(ErrorOf(SetXattr(file, "name", std::string(65537, 'v')).result), Error::kXattrTooBig);
}

TEST_P(XattrsSuite, SymlinksHaveNoExtendedAttributes) {
  const Handle link = MakeSymlink(root_, "link", "x");
  EXPECT_EQ(ErrorOf(GetXattr(link, "name")), Error::kNoXattr);
  EXPECT_EQ(ErrorOf(SetXattr(link, "name", "x").result), Error::kPerm);
}

TEST_P(XattrsSuite, RequiresTheRightsToTheData) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  const Handle closed = Make(root_, "closed", 0600), read = Make(root_, "read", 0604),
               write = Make(root_, "write", 0606);
  for (const Handle& file : {closed, read, write}) ASSERT_TRUE(SetXattr(file, "name", "value").result);
  caller_ = As(1001, 1001);
  EXPECT_EQ(ErrorOf(GetXattr(closed, "name")), Error::kAccess);
  EXPECT_EQ(ErrorOf(ListXattrs(closed)), Error::kAccess);
  EXPECT_EQ(GetXattr(read, "name"), "value");
  EXPECT_TRUE(ListXattrs(read));
  EXPECT_EQ(ErrorOf(SetXattr(read, "name", "x").result), Error::kAccess);
  EXPECT_EQ(ErrorOf(RemoveXattr(read, "name").result), Error::kAccess);
  EXPECT_TRUE(SetXattr(write, "name", "x").result);
  constexpr AccessMask kAll = kAccessXattrRead | kAccessXattrWrite | kAccessXattrList;
  EXPECT_EQ(*Await(fs().Access(caller_, closed, kAll)).result, 0u);
  EXPECT_EQ(*Await(fs().Access(caller_, read, kAll)).result, kAccessXattrRead | kAccessXattrList);
  EXPECT_EQ(*Await(fs().Access(caller_, write, kAll)).result, kAll);
}

class AclsSuite : public FileSystemSuite {
 protected:
  void SetUp() override {
    FileSystemSuite::SetUp();
    if (!fs().GetProperties().acls) GTEST_SKIP() << "this file system has no access control lists";
  }
  Acls GetAcls(const Handle& object) {
    const auto observed = Await(fs().GetAcls(caller_, object));
    EXPECT_TRUE(observed.result) << ToString(observed.result.error());
    return observed.result.value_or(Acls{});
  }
  Changed<void> SetAcls(const Handle& object, const NewAcls& acls) {
    return Await(fs().SetAcls(caller_, object, acls));
  }

  // owner rw-, user 1003 r--, owning group ---, mask r--, other ---
  const Acl acl_{{AclTag::kOwner, 0, 6},
                 {AclTag::kUser, 1003, 4},
                 {AclTag::kOwningGroup, 0, 0},
                 {AclTag::kMask, 0, 4},
                 {AclTag::kOther, 0, 0}};
};

TEST_P(AclsSuite, ReportsTheModeAsAList) {
  EXPECT_EQ(GetAcls(Make(root_, "file", 0640)).access, AclOfMode(0640));
  EXPECT_TRUE(GetAcls(root_).defaults.empty());
  EXPECT_EQ(GetAcls(MakeSymlink(root_, "link", "x")).access, AclOfMode(0777));
}

TEST_P(AclsSuite, ReturnsTheListThatWasSetAndUpdatesTheMode) {
  const Handle file = Make(root_, "file", 04755);
  const Attributes before = Stat(file);
  const Changed<void> set = SetAcls(file, {acl_, {}});
  ASSERT_TRUE(set.result) << ToString(set.result.error());
  ExpectNoted(set.object, before, file);
  EXPECT_EQ(GetAcls(file).access, acl_);
  EXPECT_EQ(Stat(file).mode, 04640u);
  ASSERT_TRUE(SetAcls(file, {AclOfMode(0751), {}}).result);
  EXPECT_EQ(GetAcls(file).access, AclOfMode(0751));
  EXPECT_EQ(Stat(file).mode, 04751u);
}

TEST_P(AclsSuite, ChangeOfModeChangesTheMask) {
  const Handle file = Make(root_, "file", 0600);
  ASSERT_TRUE(SetAcls(file, {acl_, {}}).result);
  NewAttributes values;
  values.mode = 0607;
  ASSERT_TRUE(Set(file, values).result);
  Acl expected = acl_;
  expected[3].permissions = 0;
  expected[4].permissions = 7;
  EXPECT_EQ(GetAcls(file).access, expected);
}

TEST_P(AclsSuite, ListDeterminesAccess) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  const Handle file = Make(root_, "file", 0600);
  caller_ = As(1003, 1);
  EXPECT_EQ(ErrorOf(Read(file, 0, 10).result), Error::kAccess);
  ASSERT_TRUE(Await(fs().SetAcls(As(0, 0), file, {acl_, {}})).result);
  EXPECT_TRUE(Read(file, 0, 10).result);
  EXPECT_EQ(*Await(fs().Access(caller_, file, 0x3f)).result, kAccessRead);
  EXPECT_EQ(ErrorOf(Write(file, 0, "x").result), Error::kAccess);
  caller_ = As(1004, 1);
  EXPECT_EQ(ErrorOf(Read(file, 0, 10).result), Error::kAccess);
}

TEST_P(AclsSuite, OnlyTheOwnerSetsAList) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  caller_ = As(1001, 1001);
  const Handle file = Make(root_, "file", 0666);
  EXPECT_TRUE(SetAcls(file, {acl_, {}}).result);
  caller_ = As(1003, 1003);
  EXPECT_EQ(ErrorOf(SetAcls(file, {acl_, {}}).result), Error::kPerm);
  EXPECT_EQ(GetAcls(file).access, acl_) << "every caller may read the list";
}

TEST_P(AclsSuite, NewObjectsInheritTheDefaultListOfTheDirectory) {
  const Handle directory = MakeDirectory(root_, "directory");
  const Acl defaults{{AclTag::kOwner, 0, 7},
                     {AclTag::kUser, 1003, 7},
                     {AclTag::kOwningGroup, 0, 5},
                     {AclTag::kMask, 0, 7},
                     {AclTag::kOther, 0, 1}};
  ASSERT_TRUE(SetAcls(directory, {{}, defaults}).result);
  EXPECT_EQ(GetAcls(directory).defaults, defaults);
  EXPECT_EQ(GetAcls(directory).access, AclOfMode(0755)) << "the default list is not the access list";
  CreateHow how;
  how.attributes.mode = 0666;
  how.attributes.umask = 077;
  const Changed<Node> file = Await(fs().Create(caller_, directory, "file", how));
  ASSERT_TRUE(file.result);
  EXPECT_EQ(file.result->attributes.mode, 0660u) << "the default list replaces the umask";
  EXPECT_EQ(GetAcls(file.result->handle).access, Inherit(defaults, 0666));
  const Handle inner = MakeDirectory(directory, "inner", 0770);
  EXPECT_EQ(GetAcls(inner).defaults, defaults);
  EXPECT_EQ(GetAcls(inner).access, Inherit(defaults, 0770));
  ASSERT_TRUE(SetAcls(directory, {{}, Acl{}}).result);
  EXPECT_TRUE(GetAcls(directory).defaults.empty());
  EXPECT_TRUE(SetAcls(directory, {{}, Acl{}}).result) << "removing it again succeeds";
}

TEST_P(AclsSuite, RejectsMalformedAcl) {
  const Handle file = Make(root_, "file", 0640);
  Acl unmasked = acl_;
  unmasked.erase(unmasked.begin() + 3);
  for (const Acl& bad : {Acl{}, unmasked}) {
    EXPECT_EQ(ErrorOf(SetAcls(file, {bad, {}}).result), Error::kInvalid);
  }
  EXPECT_EQ(ErrorOf(SetAcls(file, {{}, acl_}).result), Error::kInvalid) << "a file has no default list";
  EXPECT_TRUE(SetAcls(file, {{}, Acl{}}).result);
  EXPECT_EQ(GetAcls(file).access, AclOfMode(0640));
  EXPECT_EQ(ErrorOf(SetAcls(MakeSymlink(root_, "link", "x"), {acl_, {}}).result), Error::kNotSupported);
}

}  // namespace penstock::fs::suite
