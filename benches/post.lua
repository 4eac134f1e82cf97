-- Makes wrk POST its first argument as JSON: wrk … -s post.lua URL -- JSON

function init(arguments)
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
    wrk.body = arguments[1]
end
