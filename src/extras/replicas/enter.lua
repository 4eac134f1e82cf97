-- Enters a state. KEYS: the known state. ARGV: state, block, milliseconds after which the same state counts again.
-- Returns 1 if the state is entered, else 0.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('HMGET', KEYS[1], 'state', 'block', 'at')
if known[1] then
    -- A process that lags has not seen the newest change.
    if tonumber(ARGV[2]) < tonumber(known[2]) then return 0 end
    if known[1] == ARGV[1] and now - tonumber(known[3]) < tonumber(ARGV[3]) then return 0 end
end
redis.call('HSET', KEYS[1], 'state', ARGV[1], 'block', ARGV[2], 'at', now)
redis.call('PEXPIRE', KEYS[1], 2592000000)
return 1
