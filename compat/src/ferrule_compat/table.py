"""The names of ``mcp.types`` as a table, from which `ferrule_compat.wire_types` makes classes and values.

A line is ``Name < Base: field field …``. A field is ``name``, ``name?`` (optional) or ``name=JSON`` (with this default);
``:Type`` after it converts objects to that type, ``:Type*`` the objects of a list. ``_meta`` is the field ``meta``. A
line with ``= …`` is a value, and ``Name | A B`` a union.
"""

from typing import Final

__all__ = ["TABLE"]

TABLE: Final = """
LATEST_PROTOCOL_VERSION = "2025-11-25"
DEFAULT_NEGOTIATED_VERSION = "2025-03-26"
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CONNECTION_CLOSED = -32000
URL_ELICITATION_REQUIRED = -32042
ErrorData: code message data?
Icon: src mimeType? sizes?
BaseMetadata: name title?
Implementation < BaseMetadata: version websiteUrl? icons?:Icon*
Annotations: audience? priority?
ToolAnnotations: title? readOnlyHint? destructiveHint? idempotentHint? openWorldHint?
ToolExecution: taskSupport?
Tool < BaseMetadata: description? inputSchema outputSchema? icons?:Icon* annotations?:ToolAnnotations _meta? execution?:ToolExecution
PromptArgument: name description? required?
Prompt < BaseMetadata: description? arguments?:PromptArgument* icons?:Icon* _meta?
Resource < BaseMetadata: uri:Uri description? mimeType? size? icons?:Icon* annotations?:Annotations _meta?
ResourceTemplate < BaseMetadata: uriTemplate description? mimeType? icons?:Icon* annotations?:Annotations _meta?
ResourceContents: uri:Uri mimeType? _meta?
TextResourceContents < ResourceContents: text
BlobResourceContents < ResourceContents: blob
TextContent: type="text" text annotations?:Annotations _meta?
ImageContent: type="image" data mimeType annotations?:Annotations _meta?
AudioContent: type="audio" data mimeType annotations?:Annotations _meta?
ResourceLink < Resource: type="resource_link"
EmbeddedResource: type="resource" resource:Contents annotations?:Annotations _meta?
ToolUseContent: type="tool_use" name id input _meta?
ToolResultContent: type="tool_result" toolUseId content=[] structuredContent? isError? _meta?
ContentBlock | TextContent ImageContent AudioContent ResourceLink EmbeddedResource
Content | TextContent ImageContent AudioContent ResourceLink EmbeddedResource
SamplingContent | TextContent ImageContent AudioContent
SamplingMessageContentBlock | TextContent ImageContent AudioContent ToolUseContent ToolResultContent
PromptMessage: role content:Content
SamplingMessage: role content:Content _meta?
Root: uri:Uri name? _meta?
ModelHint: name?
ModelPreferences: hints?:ModelHint* costPriority? speedPriority? intelligencePriority?
ToolChoice: mode?
RootsCapability: listChanged?
SamplingContextCapability:
SamplingToolsCapability:
SamplingCapability: context?:SamplingContextCapability tools?:SamplingToolsCapability
FormElicitationCapability:
UrlElicitationCapability:
ElicitationCapability: form?:FormElicitationCapability url?:UrlElicitationCapability
ClientCapabilities: experimental? sampling?:SamplingCapability elicitation?:ElicitationCapability roots?:RootsCapability tasks?
PromptsCapability: listChanged?
ResourcesCapability: subscribe? listChanged?
ToolsCapability: listChanged?
LoggingCapability:
CompletionsCapability:
ServerCapabilities: experimental? logging?:LoggingCapability prompts?:PromptsCapability resources?:ResourcesCapability tools?:ToolsCapability completions?:CompletionsCapability tasks?
InitializationOptions: server_name server_version capabilities:ServerCapabilities instructions? website_url? icons?:Icon*
RequestParams: _meta?:Meta
PaginatedRequestParams < RequestParams: cursor?
NotificationParams: _meta?:Meta
Meta: progressToken?
Request: method params?
PaginatedRequest < Request: params?:PaginatedRequestParams
Notification: method params?
InitializeRequestParams < RequestParams: protocolVersion capabilities:ClientCapabilities clientInfo:Implementation
InitializeRequest < Request: method="initialize" params:InitializeRequestParams
InitializedNotification < Notification: method="notifications/initialized"
PingRequest < Request: method="ping"
ListToolsRequest < PaginatedRequest: method="tools/list"
ListPromptsRequest < PaginatedRequest: method="prompts/list"
ListResourcesRequest < PaginatedRequest: method="resources/list"
ListResourceTemplatesRequest < PaginatedRequest: method="resources/templates/list"
CallToolRequestParams < RequestParams: name arguments? task?
CallToolRequest < Request: method="tools/call" params:CallToolRequestParams
GetPromptRequestParams < RequestParams: name arguments?
GetPromptRequest < Request: method="prompts/get" params:GetPromptRequestParams
ReadResourceRequestParams < RequestParams: uri:Uri
ReadResourceRequest < Request: method="resources/read" params:ReadResourceRequestParams
SubscribeRequestParams < RequestParams: uri:Uri
SubscribeRequest < Request: method="resources/subscribe" params:SubscribeRequestParams
UnsubscribeRequestParams < RequestParams: uri:Uri
UnsubscribeRequest < Request: method="resources/unsubscribe" params:UnsubscribeRequestParams
SetLevelRequestParams < RequestParams: level
SetLevelRequest < Request: method="logging/setLevel" params:SetLevelRequestParams
ResourceTemplateReference: type="ref/resource" uri
ResourceReference < ResourceTemplateReference:
PromptReference: type="ref/prompt" name
CompletionArgument: name value
CompletionContext: arguments?
CompleteRequestParams < RequestParams: ref:Reference argument:CompletionArgument context?:CompletionContext
CompleteRequest < Request: method="completion/complete" params:CompleteRequestParams
Completion: values total? hasMore?
CreateMessageRequestParams < RequestParams: messages:SamplingMessage* modelPreferences? systemPrompt? includeContext? temperature? maxTokens stopSequences? metadata? tools? toolChoice?
CreateMessageRequest < Request: method="sampling/createMessage" params:CreateMessageRequestParams
ListRootsRequest < Request: method="roots/list"
ElicitRequestFormParams < RequestParams: mode="form" message requestedSchema
ElicitRequestURLParams < RequestParams: mode="url" message url elicitationId
ElicitRequestParams | ElicitRequestURLParams ElicitRequestFormParams
ElicitRequest < Request: method="elicitation/create" params:ElicitParams
ProgressNotificationParams < NotificationParams: progressToken progress total? message?
ProgressNotification < Notification: method="notifications/progress" params:ProgressNotificationParams
LoggingMessageNotificationParams < NotificationParams: level logger? data
LoggingMessageNotification < Notification: method="notifications/message" params:LoggingMessageNotificationParams
ResourceUpdatedNotificationParams < NotificationParams: uri:Uri
ResourceUpdatedNotification < Notification: method="notifications/resources/updated" params:ResourceUpdatedNotificationParams
ResourceListChangedNotification < Notification: method="notifications/resources/list_changed"
ToolListChangedNotification < Notification: method="notifications/tools/list_changed"
PromptListChangedNotification < Notification: method="notifications/prompts/list_changed"
RootsListChangedNotification < Notification: method="notifications/roots/list_changed"
CancelledNotificationParams < NotificationParams: requestId? reason?
CancelledNotification < Notification: method="notifications/cancelled" params:CancelledNotificationParams
Result: _meta?
PaginatedResult < Result: nextCursor?
EmptyResult < Result:
InitializeResult < Result: protocolVersion capabilities:ServerCapabilities serverInfo:Implementation instructions?
ListToolsResult < PaginatedResult: tools:Tool*
ListPromptsResult < PaginatedResult: prompts:Prompt*
ListResourcesResult < PaginatedResult: resources:Resource*
ListResourceTemplatesResult < PaginatedResult: resourceTemplates:ResourceTemplate*
CallToolResult < Result: content:Content* structuredContent? isError=false
ReadResourceResult < Result: contents:Contents*
GetPromptResult < Result: description? messages:PromptMessage*
CompleteResult < Result: completion:Completion
CreateMessageResult < Result: role content:Content model stopReason?
CreateMessageResultWithTools < Result: role content:Content model stopReason?
ListRootsResult < Result: roots:Root*
ElicitResult < Result: action content?
JSONRPCRequest < Request: jsonrpc="2.0" id
JSONRPCNotification < Notification: jsonrpc="2.0"
JSONRPCResponse: jsonrpc="2.0" id result
JSONRPCError: jsonrpc="2.0" id error:ErrorData
"""
