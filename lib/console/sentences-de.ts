// What the server says, in German, by what it says in English; each `{}` stands for what it names.
export const SENTENCES: Readonly<Record<string, string>> = {
  'Incorrect email or password': 'E-Mail oder Passwort ist falsch',
  'Current password is incorrect': 'Das bisherige Passwort ist falsch',
  'Password is too common; choose a stronger password.': 'Das Passwort ist zu verbreitet; wähle ein stärkeres.',
  'Email already registered': 'Diese E-Mail-Adresse hat schon ein Konto',
  'Email already in use': 'Diese E-Mail-Adresse wird schon benutzt',
  'Registration needs an invitation that is good': 'Ein Konto gibt es nur mit einer gültigen Einladung',
  'Registration is disabled': 'Neue Konten gibt es hier nicht',
  'This account is disabled': 'Dieses Konto ist gesperrt',
  'This link was used already, or is not good any more': 'Dieser Link wurde schon benutzt, oder er gilt nicht mehr',
  'Too many login attempts. Try again later.': 'Zu viele Versuche. Versuche es später noch einmal.',
  'Too many registrations from this address. Try again later.':
    'Zu viele neue Konten von dieser Adresse. Versuche es später noch einmal.',
  'Too many mails for this address, or from here. Try again later.':
    'Zu viele Mails an diese Adresse oder von hier. Versuche es später noch einmal.',
  'Accounts of this service sign in with a provider': 'Konten melden sich hier bei einem Anbieter an',
  'This is under a legal hold: it is not deleted until an administrator lifts the hold':
    'Dies wird aus rechtlichen Gründen aufbewahrt: gelöscht wird es erst, wenn ein Administrator das aufhebt',
  'Sharing conversations is turned off here': 'Unterhaltungen werden hier nicht geteilt',
  'A conversation has at most {} links. Revoke one and try again.':
    'Eine Unterhaltung hat höchstens {} Links. Nimm einen zurück und versuche es noch einmal.',
  'An account has at most {} API tokens. Revoke one and try again.':
    'Ein Konto hat höchstens {} API-Tokens. Widerrufe eines und versuche es noch einmal.',
  'Its files are not on this device any more': 'Ihre Dateien sind nicht mehr auf diesem Gerät',
  'Thread {} not found': 'Diese Unterhaltung gibt es nicht (mehr): {}',
  'Thread {} already has an active run': 'In dieser Unterhaltung wird schon geantwortet: {}',
  'It was changed or deleted meanwhile. Look again.':
    'Es wurde inzwischen geändert oder gelöscht. Sieh noch einmal nach.',
  'Too many active runs. Wait for one to end and try again.':
    'Zu viele Antworten zugleich. Warte, bis eine fertig ist, und versuche es noch einmal.',
  'You have started {} runs today, which is your quota. Try again from {} on.':
    'Du hast heute {} Läufe begonnen, mehr darfst du nicht. Versuche es ab {} wieder.',
  'You have used {} tokens or more today, which is your quota. Try again from {} on.':
    'Du hast heute {} Tokens oder mehr verbraucht, mehr darfst du nicht. Versuche es ab {} wieder.',
  'You have {} runs in flight, which is your quota. Wait for one to end and try again.':
    'Du hast {} Läufe zugleich, mehr darfst du nicht. Warte, bis einer fertig ist, und versuche es noch einmal.',
  'File too large: at most {} bytes': 'Die Datei ist zu groß: höchstens {} Bytes',
  'Your files would have more than {} bytes. Delete some and try again.':
    'Deine Dateien hätten mehr als {} Bytes. Lösche welche und versuche es noch einmal.',
  'Internal Server Error': 'Fehler im Server',
  'The agent failed unexpectedly': 'Der Agent ist unerwartet gescheitert',
  'The run took longer than {} s': 'Es hat länger als {} s gedauert',
  'The model "{}" cannot be reached': 'Das Modell „{}“ ist nicht erreichbar',
  'The model "{}" is not available: {}': 'Das Modell „{}“ steht gerade nicht zur Verfügung: {}',
  'The model "{}" refused the request with {}': 'Das Modell „{}“ hat die Anfrage abgelehnt: {}',
  'The model "{}" broke off in the middle of its answer': 'Das Modell „{}“ hat mitten in der Antwort abgebrochen',
  'The model "{}" broke off in the middle of its answer {}': 'Das Modell „{}“ hat mitten in der Antwort abgebrochen {}'
}
