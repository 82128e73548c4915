// What the server says, in Chinese, by what it says in English; each `{}` stands for what it names.
export const SENTENCES: Readonly<Record<string, string>> = {
  'Incorrect email or password': '邮箱或密码不正确',
  'Current password is incorrect': '当前密码不正确',
  'Password is too common; choose a stronger password.': '密码太常见，请选择更强的密码。',
  'Email already registered': '该邮箱已注册',
  'Email already in use': '该邮箱已被使用',
  'Registration needs an invitation that is good': '注册需要有效的邀请',
  'Registration is disabled': '注册已关闭',
  'This account is disabled': '此账户已停用',
  'This link was used already, or is not good any more': '此链接已使用过或已失效',
  'Too many login attempts. Try again later.': '登录尝试次数过多。请稍后再试。',
  'Too many registrations from this address. Try again later.': '此地址注册过多。请稍后再试。',
  'Too many mails for this address, or from here. Try again later.': '发往此地址或从此处发出的邮件过多。请稍后再试。',
  'Accounts of this service sign in with a provider': '此服务的账户通过提供方登录',
  'This is under a legal hold: it is not deleted until an administrator lifts the hold':
    '此内容处于法律保留状态：管理员解除之前不会删除',
  'Sharing conversations is turned off here': '此处已关闭对话分享',
  'A conversation has at most {} links. Revoke one and try again.': '一个对话最多有 {} 个链接。请收回一个后重试。',
  'An account has at most {} API tokens. Revoke one and try again.':
    '一个账户最多有 {} 个 API 令牌。请撤销一个后重试。',
  'Its files are not on this device any more': '它的文件已不在此设备上',
  'Thread {} not found': '找不到对话 {}',
  'Thread {} already has an active run': '对话 {} 中已有正在进行的回答',
  'It was changed or deleted meanwhile. Look again.': '内容已被更改或删除。请重新查看。',
  'Too many active runs. Wait for one to end and try again.': '正在进行的回答过多。请等其中一个结束后重试。',
  'You have started {} runs today, which is your quota. Try again from {} on.':
    '你今天已启动 {} 次运行，达到配额。请在 {} 之后重试。',
  'You have used {} tokens or more today, which is your quota. Try again from {} on.':
    '你今天已使用 {} 个或更多 token，达到配额。请在 {} 之后重试。',
  'You have {} runs in flight, which is your quota. Wait for one to end and try again.':
    '你有 {} 个运行正在进行，达到配额。请等其中一个结束后重试。',
  'File too large: at most {} bytes': '文件太大：最多 {} 字节',
  'Your files would have more than {} bytes. Delete some and try again.': '你的文件将超过 {} 字节。请删除一些后重试。',
  'Internal Server Error': '服务器内部错误',
  'The agent failed unexpectedly': '智能体意外失败',
  'The run took longer than {} s': '运行超过了 {} 秒',
  'The model "{}" cannot be reached': '无法连接模型“{}”',
  'The model "{}" is not available: {}': '模型“{}”不可用：{}',
  'The model "{}" refused the request with {}': '模型“{}”拒绝了请求：{}',
  'The model "{}" broke off in the middle of its answer': '模型“{}”在回答中途中断',
  'The model "{}" broke off in the middle of its answer {}': '模型“{}”在回答中途中断 {}'
}
