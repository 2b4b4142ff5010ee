-- A dissector of the sessions of 2004 (draft-talpey-nfsv4-rdma-sess-01) for Wireshark and tshark, from version 4.0 on.
--
--   tshark -X lua_script:sess01.lua -r FILE -Y sess01
--   tshark -X lua_script:sess01.lua -r FILE -Y sess01.malformed        (or _ws.malformed)
--   tshark -X lua_script:sess01.lua -d tcp.port==12049,sess01 ...      (another port than 2049)
--
-- It reads RPC records over TCP. It knows a COMPOUND of the draft by minor version 1 and its first operation, or, on a connection with a
-- successful SESSION_BIND, by minor version 1 alone. It walks through all operations of a COMPOUND, so that it sees where they end;
-- those of minor version 0 (RFC 7530) only have their names. Other messages, and calls under RPCSEC_GSS, go to Wireshark's own
-- dissectors. A connection that has stepped up to RDMA shows its MPA frames as octets: tests/harness/rdma_messages.py writes the
-- messages in them as records. nfs4_items.lua must be in the same folder.

local items = dofile(debug.getinfo(1, "S").source:match("^@(.*)sess01.lua$") .. "nfs4_items.lua")
local arguments, results, callback_arguments, callback_results =
  items.arguments, items.results, items.callback_arguments, items.callback_results
local read_layout, reader_of, wrong = items.read_layout, items.reader_of, items.wrong

local sess01 = Proto("sess01", "NFSv4 Sessions of 2004")

local NFS, CALLBACK = 100003, 0x40000000
local CONTROL, CREATE, BIND, DESTROY, CREDITRECALL = 200401, 200402, 200403, 200404, 200405
local LONGEST_RECORD = 4 * 1024 * 1024

local operation_names = {
  [3] = "ACCESS", [4] = "CLOSE", [5] = "COMMIT", [6] = "CREATE", [7] = "DELEGPURGE", [8] = "DELEGRETURN", [9] = "GETATTR", [10] = "GETFH",
  [11] = "LINK", [12] = "LOCK", [13] = "LOCKT", [14] = "LOCKU", [15] = "LOOKUP", [16] = "LOOKUPP", [17] = "NVERIFY", [18] = "OPEN",
  [19] = "OPENATTR", [20] = "OPEN_CONFIRM", [21] = "OPEN_DOWNGRADE", [22] = "PUTFH", [23] = "PUTPUBFH", [24] = "PUTROOTFH",
  [25] = "READ", [26] = "READDIR", [27] = "READLINK", [28] = "REMOVE", [29] = "RENAME", [30] = "RENEW", [31] = "RESTOREFH",
  [32] = "SAVEFH", [33] = "SECINFO", [34] = "SETATTR", [35] = "SETCLIENTID", [36] = "SETCLIENTID_CONFIRM", [37] = "VERIFY",
  [38] = "WRITE", [39] = "RELEASE_LOCKOWNER", [10044] = "ILLEGAL",
  [CONTROL] = "OPERATION_CONTROL", [CREATE] = "SESSION_CREATE", [BIND] = "SESSION_BIND", [DESTROY] = "SESSION_DESTROY",
}
local callback_names = {
  [3] = "CB_GETATTR", [4] = "CB_RECALL", [10044] = "CB_ILLEGAL", [CONTROL] = "OPERATION_CONTROL", [CREDITRECALL] = "CB_CREDITRECALL",
}
local all_names = {}
for _, names in ipairs({callback_names, operation_names}) do
  for number, name in pairs(names) do all_names[number] = name end
end
local status_names = {
  [0] = "NFS4_OK", [200410] = "SESS01_BADSESSION", [200411] = "SESS01_BADSTREAM", [200412] = "SESS01_CHAIN_INVALID",
  [200413] = "SESS01_CHAIN_BROKEN", [200414] = "SESS01_NOT_BOUND", [200415] = "SESS01_CONTROL_POS", [200416] = "SESS01_BADBIND",
  [200417] = "SESS01_BADCHANNEL", [200418] = "SESS01_STREAM_INUSE", [200419] = "SESS01_UNKNOWN_FATE", [10005] = "NFS4ERR_TOOSMALL",
  [10036] = "NFS4ERR_BADXDR", [10004] = "NFS4ERR_NOTSUPP", [22] = "NFS4ERR_INVAL",
}
local channel_names = {[0] = "OPERATION", [1] = "BACK"}
local mode_names = {[0] = "STREAM", [1] = "RDMA"}
local flag_names = {[0] = "NOCHAIN", [1] = "CHAINBEGIN", [2] = "CHAINCONTINUE", [3] = "CHAINEND"}
local attribute_names = {[1] = "mode granted", [2] = "server's instance"}
local OK, SETATTR = 0, 34

local f = {
  xid = ProtoField.uint32("sess01.xid", "XID", base.HEX),
  msgtyp = ProtoField.uint32("sess01.msgtyp", "Message type", base.DEC, {[0] = "call", [1] = "reply"}),
  callback = ProtoField.bool("sess01.callback", "CB_COMPOUND"),
  call_in = ProtoField.framenum("sess01.call_in", "The call", base.NONE, frametype.REQUEST),
  tag = ProtoField.bytes("sess01.tag", "Tag"),
  minorversion = ProtoField.uint32("sess01.minorversion", "Minor version"),
  callback_ident = ProtoField.uint32("sess01.callback_ident", "Callback ident"),
  count = ProtoField.uint32("sess01.operations", "Number of operations"),
  operation = ProtoField.uint32("sess01.operation", "Operation", base.DEC, all_names),
  status = ProtoField.uint32("sess01.status", "Status", base.DEC, status_names),
  compound_status = ProtoField.uint32("sess01.compound_status", "Status of the whole", base.DEC, status_names),
  channelid = ProtoField.uint32("sess01.channelid", "Channelid"),
  streamid = ProtoField.uint32("sess01.streamid", "Streamid"),
  chainflags = ProtoField.uint32("sess01.chainflags", "Chain flags", base.DEC, flag_names),
  verifier = ProtoField.bytes("sess01.verifier", "Client's verifier"),
  id = ProtoField.bytes("sess01.id", "Client's id"),
  persist = ProtoField.uint32("sess01.persist", "Persist"),
  totalrequests = ProtoField.uint32("sess01.totalrequests", "Total requests"),
  sessionid = ProtoField.uint64("sess01.sessionid", "Sessionid", base.HEX),
  channel = ProtoField.uint32("sess01.channel", "Channel", base.DEC, channel_names),
  mode = ProtoField.uint32("sess01.mode", "Mode", base.DEC, mode_names),
  maxrequestsize = ProtoField.uint32("sess01.maxrequestsize", "Largest request"),
  maxresponsesize = ProtoField.uint32("sess01.maxresponsesize", "Largest response"),
  headerpadsize = ProtoField.uint32("sess01.headerpadsize", "Header pad"),
  maxrequests = ProtoField.uint32("sess01.maxrequests", "Requests"),
  maxrdmareads = ProtoField.uint32("sess01.maxrdmareads", "RDMA Reads"),
  transportattrs = ProtoField.bytes("sess01.transportattrs", "Transport attributes"),
  attribute = ProtoField.uint32("sess01.attribute", "Attribute", base.DEC, attribute_names),
  mode_granted = ProtoField.uint32("sess01.mode_granted", "Mode granted", base.DEC, mode_names),
  instance = ProtoField.bytes("sess01.instance", "Server's instance"),
  target = ProtoField.uint32("sess01.target", "Credit target"),
  rdma = ProtoField.bytes("sess01.rdma", "Octets in RDMA mode"),
  malformed = ProtoField.string("sess01.malformed", "Malformed"),
}
sess01.fields = f

local broken = ProtoExpert.new("sess01.expert.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
sess01.experts = {broken}

local tcp_stream = Field.new("tcp.stream")

-- What earlier packets have told, by TCP stream: the calls by direction and XID, the packet of the first successful bind, and by
-- direction the packet whose MPA frame begins RDMA mode.
local calls, bound, stepped

function sess01.init()
  calls, bound, stepped = {}, {}, {}
end

-- ---- The draft's operations ----

local function transport_attributes(reader, in_result)
  local octets = reader:opaque(f.transportattrs, 1024)
  if not octets then return end
  local inner = reader_of(octets, reader.tree:add(sess01, octets, "Transport attributes"))
  inner:array(function(self)
    local kind = self:u32(f.attribute)
    if kind == 1 and in_result then
      if self:u32() ~= 4 then wrong("a mode that has not 4 octets") end
      self:enum(mode_names, f.mode_granted)
    elseif kind == 2 and in_result then
      if self:u32() ~= 8 then wrong("an instance that has not 8 octets") end
      self:take(8, f.instance)
    else
      self:opaque()
    end
  end)
  if inner.at ~= octets:len() then wrong("octets behind the transport attributes") end
end

local function limits(reader, in_result)
  for _, name in ipairs({"maxrequestsize", "maxresponsesize", "headerpadsize", "maxrequests", "maxrdmareads"}) do reader:u32(f[name]) end
  transport_attributes(reader, in_result)
end

arguments[CONTROL] = function(reader)
  reader:u32(f.channelid)
  reader:u32(f.streamid)
  reader:enum(flag_names, f.chainflags)
end
arguments[CREATE] = function(reader)
  reader:take(8, f.verifier)
  reader:opaque(f.id, 1024)
  reader:boolean(f.persist)
  reader:u32(f.totalrequests)
end
arguments[BIND] = function(reader)
  reader:u64(f.sessionid)
  reader:enum(channel_names, f.channel)
  reader:enum(mode_names, f.mode)
  limits(reader, false)
end
results[CONTROL] = function(reader) reader:u32(f.streamid) end
results[CREATE] = function(reader)
  reader:u64(f.sessionid)
  reader:boolean(f.persist)
  reader:u32(f.totalrequests)
end
results[BIND] = function(reader)
  reader:u32(f.channelid)
  limits(reader, true)
end
callback_arguments[CONTROL], callback_results[CONTROL] = arguments[CONTROL], results[CONTROL]
callback_arguments[CREDITRECALL] = function(reader) reader:u32(f.target) end

-- ---- COMPOUND and CB_COMPOUND ----

-- Adds an operation to the tree, and returns its reader and number. The reader's tree is the operation's.
local function begin_operation(reader, names)
  if reader.at + 4 > reader.range:len() then wrong("an operation is missing") end
  local start = reader.at
  local number = reader.range:range(start, 4):uint()
  local item = reader.tree:add(sess01, reader.range:range(start), names[number] or ("operation " .. number))
  local inner = reader_of(reader.range, item)
  inner.at = start
  inner:u32(f.operation)
  return inner, number, item, start
end

local function end_operation(reader, inner, item, start)
  item:set_len(inner.at - start)
  reader.at = inner.at
end

local function read_call(reader, is_callback, said)
  reader:opaque(f.tag)
  reader:u32(f.minorversion)
  if is_callback then reader:u32(f.callback_ident) end
  local names, layouts = operation_names, arguments
  if is_callback then names, layouts = callback_names, callback_arguments end
  local count, steps = reader:u32(f.count), {}
  for i = 1, count do
    local inner, number, item, start = begin_operation(reader, names)
    said[#said + 1] = names[number] or tostring(number)
    if not names[number] then wrong("operation " .. number .. ", which does not exist") end
    if layouts[number] then read_layout(inner, layouts[number]) end
    end_operation(reader, inner, item, start)
    steps[i] = number
  end
  if reader.at ~= reader.range:len() then wrong("octets behind the last operation") end
  -- The rules of §3.3 and §6.3 on places: their breach is the sender's.
  for i, number in ipairs(steps) do
    if number == CONTROL and i > 1 then wrong("OPERATION_CONTROL is not the first operation") end
    if number == DESTROY and (i == 1 or i < count) then wrong("SESSION_DESTROY is not the last operation behind OPERATION_CONTROL") end
    if (number == CREATE or number == BIND) and i > 1 then wrong(names[number] .. " is not the first operation") end
  end
  if steps[1] ~= CONTROL and steps[1] ~= CREATE and steps[1] ~= BIND then wrong("OPERATION_CONTROL is missing") end
end

-- Returns the status of a SESSION_BIND, if there is one.
local function read_reply(reader, is_callback, said)
  local whole = reader:u32(f.compound_status)
  reader:opaque(f.tag)
  local names, layouts = operation_names, results
  if is_callback then names, layouts = callback_names, callback_results end
  local count, status, bind_status = reader:u32(f.count), OK, nil
  for i = 1, count do
    local inner, number, item, start = begin_operation(reader, names)
    said[#said + 1] = names[number] or tostring(number)
    if not names[number] then wrong("a result of operation " .. number .. ", which does not exist") end
    status = inner:u32(f.status)
    local layout = layouts[number]
    if status ~= OK then layout = not is_callback and items.error_results[number] and items.error_results[number][status] or nil end
    if number == SETATTR and not is_callback then layout = "m" end
    if layout then read_layout(inner, layout) end
    if number == BIND then bind_status = status end
    end_operation(reader, inner, item, start)
    if status ~= OK and i < count then wrong("results behind a failure") end
  end
  if count > 0 and status ~= whole then wrong("a status that is not that of the last operation") end
  if reader.at ~= reader.range:len() then wrong("octets behind the last result") end
  return bind_status
end

-- ---- RPC ----

-- Returns the call's header: {xid, program, procedure, at}; nil if it is none that we could read.
local function rpc_call(range)
  local ok, header = pcall(function()
    local reader = reader_of(range)
    local header = {xid = reader:u32()}
    if reader:u32() ~= 0 or reader:u32() ~= 2 then wrong("no call") end
    header.program, header.version, header.procedure = reader:u32(), reader:u32(), reader:u32()
    local flavor = reader:u32()
    reader:opaque(nil, 400)
    reader:u32()
    reader:opaque(nil, 400)
    header.at = reader.at
    if flavor > 1 then wrong("a flavor that may hide the arguments") end
    return header
  end)
  return ok and header or nil
end

-- Tells whether a call is a COMPOUND or CB_COMPOUND of the draft.
local function is_ours(range, header, is_bound)
  if header.procedure ~= 1 then return false end
  local is_callback = header.program == CALLBACK and header.version == 1
  if not is_callback and not (header.program == NFS and header.version == 4) then return false end
  local ok, ours = pcall(function()
    local reader = reader_of(range)
    reader.at = header.at
    reader:opaque()
    local minor = reader:u32()
    if is_callback then reader:u32() end
    if minor ~= 1 then return false end
    if is_bound then return true end
    if reader:u32() == 0 then return false end
    local first = reader:u32()
    return first >= CONTROL and first <= CREDITRECALL
  end)
  return ok and ours, is_callback
end

-- Makes _ws.malformed true for the packet: a dissector of Wireshark meets the end of its octets.
local function raise_malformed(pinfo, tree)
  pcall(function() Dissector.get("iwarp_ddp_rdmap"):call(ByteArray.new("41"):tvb("malformed"), pinfo, tree) end)
end

-- Runs `read`, and marks what it finds wrong.
local function guarded(range, pinfo, tree, read)
  local done = {pcall(read)}
  if done[1] then return done[2] end
  local why = type(done[2]) == "table" and done[2].malformed or tostring(done[2])
  tree:add(f.malformed, range, why):add_proto_expert_info(broken, why)
  raise_malformed(pinfo, tree)
end

local function show(pinfo, what, said)
  pinfo.cols.protocol = "SESS01"
  pinfo.cols.info:append(" " .. what .. " " .. table.concat(said, " "))
end

local function dissect_call(range, header, is_callback, pinfo, tree)
  local item = tree:add(sess01, range, is_callback and "CB_COMPOUND call" or "COMPOUND call")
  item:add(f.xid, range:range(0, 4))
  item:add(f.msgtyp, range:range(4, 4))
  item:add(f.callback, is_callback):set_generated()
  local reader, said = reader_of(range, item), {}
  reader.at = header.at
  guarded(range, pinfo, item, function() read_call(reader, is_callback, said) end)
  show(pinfo, is_callback and "CB call" or "call", said)
end

local function dissect_reply(range, call, stream, pinfo, tree)
  local item, said = tree:add(sess01, range, call.is_callback and "CB_COMPOUND reply" or "COMPOUND reply"), {}
  item:add(f.xid, range:range(0, 4))
  item:add(f.msgtyp, range:range(4, 4))
  item:add(f.call_in, call.packet):set_generated()
  item:add(f.callback, call.is_callback):set_generated()
  local reader = reader_of(range, item)
  local status = guarded(range, pinfo, item, function()
    reader:take(8)
    if reader:u32() ~= 0 then return end  -- denied: nothing of ours follows
    reader:u32()
    reader:opaque(nil, 400)
    if reader:u32() ~= 0 then return end  -- no results
    return read_reply(reader, call.is_callback, said)
  end)
  show(pinfo, call.is_callback and "CB reply" or "reply", said)
  if status == OK then bound[stream] = math.min(bound[stream] or pinfo.number, pinfo.number) end
end

-- Returns the last call before this packet that a reply answers.
local function call_of(stream, xid, pinfo)
  local found
  for _, call in ipairs(calls[stream] and calls[stream][pinfo.dst_port .. ":" .. xid] or {}) do
    if call.packet <= pinfo.number then found = call end
  end
  return found
end

local function remember_call(stream, xid, is_callback, pinfo)
  calls[stream] = calls[stream] or {}
  local key = pinfo.src_port .. ":" .. xid
  local list = calls[stream][key] or {}
  calls[stream][key] = list
  if not list[#list] or list[#list].packet < pinfo.number then list[#list + 1] = {is_callback = is_callback, packet = pinfo.number} end
end

-- Dissects an RPC message if it is of the draft; returns whether it is.
local function dissect_message(range, stream, pinfo, tree)
  if range:len() < 8 then return false end
  local xid = range:range(0, 4):uint()
  if range:range(4, 4):uint() == 1 then
    local call = call_of(stream, xid, pinfo)
    if call then dissect_reply(range, call, stream, pinfo, tree) end
    return call ~= nil
  end
  local header = rpc_call(range)
  if not header then return false end
  local ours, is_callback = is_ours(range, header, bound[stream] and bound[stream] < pinfo.number)
  if not ours then return false end
  remember_call(stream, xid, is_callback, pinfo)
  dissect_call(range, header, is_callback, pinfo, tree)
  return true
end

local rpc = Dissector.get("rpc")

-- Tells whether the octets at `offset` are MPA's, and remembers where they begin.
local function is_mpa(tvb, offset, pinfo)
  local direction = tcp_stream().value .. ":" .. pinfo.src_port
  if tvb:len() - offset >= 4 and tvb:range(offset, 4):string() == "MPA " then
    stepped[direction] = math.min(stepped[direction] or pinfo.number, pinfo.number)
    return true
  end
  return (stepped[direction] or math.huge) < pinfo.number
end

local function record_length(tvb, pinfo, offset)
  local size = bit.band(tvb:range(offset, 4):uint(), 0x7fffffff)
  if is_mpa(tvb, offset, pinfo) or size > LONGEST_RECORD then return tvb:len() - offset end
  return size + 4
end

local function dissect_record(tvb, pinfo, tree)
  if is_mpa(tvb, 0, pinfo) then
    tree:add(sess01, tvb(), "RDMA mode"):add(f.rdma, tvb())
    return tvb:len()
  end
  if tvb:len() <= 4 then return tvb:len() end
  local is_whole = tvb:range(0, 1):uint() >= 0x80
  if not is_whole or not dissect_message(tvb:range(4), tcp_stream().value, pinfo, tree) then
    rpc:call(tvb:range(4):tvb(), pinfo, tree)
    pinfo.conversation = sess01  -- which the RPC dissector has claimed
  end
  return tvb:len()
end

function sess01.dissector(tvb, pinfo, tree)
  dissect_tcp_pdus(tvb, tree, 4, record_length, dissect_record)
  return tvb:len()
end

-- Any port: the first call of the draft that begins a segment claims the connection.
sess01:register_heuristic("tcp", function(tvb, pinfo, tree)
  if tvb:len() < 8 or tvb:range(0, 1):uint() < 0x80 then return false end
  local range = tvb:range(4)
  local header = rpc_call(range)
  if not header or not is_ours(range, header, false) then return false end
  pinfo.conversation = sess01
  sess01.dissector(tvb, pinfo, tree)
  return true
end)

local ports = DissectorTable.get("tcp.port")
sess01.prefs.port = Pref.uint("Port", 2049, "The port of NFS over TCP")
local port = sess01.prefs.port
ports:add(port, sess01)
function sess01.prefs_changed()
  if port ~= sess01.prefs.port then
    ports:remove(port, sess01)
    port = sess01.prefs.port
    ports:add(port, sess01)
  end
end
