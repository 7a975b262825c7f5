-- A job that runs is Healthy; one that is a hook is so only once it is complete.
local conditions = {}
local status = obj.status or {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

-- Who manages the job elsewhere counts generations there.
local manager = obj.spec.managedBy
local elsewhere = manager ~= nil and manager ~= "trellis.dev/operator"

local function says(name, value)
  local condition = conditions[name]
  return condition ~= nil and condition.status == value
end

local function isOld(name)
  local condition = conditions[name]
  return not elsewhere and (condition == nil or condition.observedGeneration ~= obj.metadata.generation)
end

local function health(result)
  local message = status.message
  if status.reason ~= nil and message ~= nil and message ~= "" then
    message = status.reason .. ": " .. message
  end
  return {status = result, message = message or status.reason or ""}
end

local annotations = obj.metadata.annotations or {}
local hook = annotations["argocd.argoproj.io/hook"] or annotations["helm.sh/hook"]

-- The end is final, whatever the spec has become since.
if says("Complete", "True") then
  return health("Healthy")
end
if says("Failed", "True") then
  return health("Degraded")
end
if next(conditions) == nil then
  local who = elsewhere and manager or "trellis.dev/operator"
  return {status = "Progressing", message = "nothing is said of it yet by " .. who}
end
if says("Accepted", "False") and not isOld("Accepted") then
  return {status = "Degraded", message = conditions.Accepted.reason .. ": " .. conditions.Accepted.message}
end
if isOld("Ready") then
  return {status = "Progressing", message = "nothing is said of the change yet by trellis.dev/operator"}
end
if says("Stalled", "True") then
  return health("Degraded")
end
if says("Suspended", "True") then
  return health("Suspended")
end
if says("Ready", "True") and hook == nil then
  return health("Healthy")
end
return health("Progressing")
